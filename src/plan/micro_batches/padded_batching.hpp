#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "plan/units/row_caps.hpp"

namespace evenkeel {

struct PaddedBatchingSettings {
  int dp = 1;
  std::int64_t max_tokens = 8192;  ///< cap on the number of samples times the padded length of a micro-batch
  std::int64_t length_round = 64;  ///< padded lengths are multiples of this
  std::int64_t max_samples =
      std::numeric_limits<std::int64_t>::max();  ///< maximum number of samples per micro-batch
  std::int64_t min_count = 1;                    ///< minimum number of micro-batches
  std::int64_t count_multiple =
      1;  ///< the number of micro-batches is a multiple of this: pp if there are virtual stages
  /// Determines the padded length of a micro-batch whose samples all have no tokens. If true, it is
  /// length_round. If false, it is 0, as in ROLL's code, except that the first micro-batch has length_round.
  /// If false and the cap is below length_round, the first micro-batch has no samples.
  bool widen_empty_samples = true;

  friend bool operator==(const PaddedBatchingSettings&, const PaddedBatchingSettings&) = default;
};

/// The micro-batches of all DP ranks that have the same index. Their positions and their padded length are
/// equal.
struct PaddedMicroBatch {
  RowRange positions;              ///< positions in every DP rank's shard
  std::int64_t padded_length = 0;  ///< length to which each sample is padded on every rank

  friend constexpr bool operator==(const PaddedMicroBatch&, const PaddedMicroBatch&) = default;
};

/// Samples assigned to DP ranks and cut into padded micro-batches, each of shape [number of samples, padded
/// length]. Every rank has the same number of micro-batches, with the same padded lengths.
struct PaddedBatches {
  Partition shards;  ///< group r: the samples of DP rank r by ascending (length, sample)
  std::vector<PaddedMicroBatch> micro_batches;

  /// Returns the samples of one micro-batch on one DP rank, by ascending length. There are positions.size()
  /// samples, or fewer if the rank's shard ends before the last position. Precondition: both arguments are in
  /// range.
  [[nodiscard]] std::span<const Item> samples(DpRank rank, std::int64_t micro_batch) const noexcept;
  /// Returns the number of tokens over all DP ranks including padding, as computed by the trainer. Filler in
  /// empty micro-batches is not counted.
  [[nodiscard]] std::int64_t padded_tokens() const noexcept;

  friend bool operator==(const PaddedBatches&, const PaddedBatches&) = default;
};

/// ROLL's dynamic batching (`dynamic_batching_shard`). Shards, micro-batches and their order are identical to
/// those of the reference whenever the reference succeeds (with samples without tokens, only if
/// widen_empty_samples is false).
/// 1. Assign samples by sorted_stride().
/// 2. Join neighboring positions of the shards while the number of samples times their padded length stays
///    within the cap, and their number within max_samples. The padded length is the maximum over all ranks,
///    rounded up.
/// 3. Raise the count to at least min_count and to a multiple of count_multiple by halving micro-batches that
///    have more than one position. Halve the largest ones first (by samples times length; earlier ones win
///    ties), each once; if that is not enough, repeat this with the resulting micro-batches. Both halves keep
///    the padded length.
/// 4. If every micro-batch has one position and the count is still too low, append empty micro-batches of
///    length_round. There is always at least one micro-batch.
///
/// Accepts any number of samples: the first n mod dp ranks get one more than the others. The cap always
/// holds. Deterministic, local, O(n log n). Throws ConfigError for a setting below 1, or a cap below
/// length_round if widen_empty_samples is true; LimitError naming the first sample above the cap after
/// rounding; InputError for a negative length.
///
/// Example: lengths {7, 6, 8, 5, 1, 3, 8, 6}, dp 2, max_tokens 12, length_round 2 give shards {4, 3, 7, 2}
/// and {5, 1, 0, 6}, and positions [0,2) [2,3) [3,4) of lengths 6, 8, 8; with count_multiple 2, positions
/// [0,1) [1,2) [2,3) [3,4) of lengths 6, 6, 8, 8.
[[nodiscard]] PaddedBatches plan_padded_batches(std::span<const std::int64_t> lengths,
                                                const PaddedBatchingSettings& settings);

/// Cuts samples that are already assigned to DP ranks: sorts each share by ascending (length, sample), then
/// does steps 2 to 4 of the function above. Share r belongs to DP rank r; shares may differ in size. In each
/// micro-batch, every DP rank's rows of each capped field also stay within the field's cap. Precondition:
/// each sample is within the caps.
[[nodiscard]] PaddedBatches plan_padded_batches(const Partition& shares,
                                                std::span<const std::int64_t> lengths,
                                                const PaddedBatchingSettings& settings,
                                                std::span<const CappedRows> capped_rows = {});

}  // namespace evenkeel
