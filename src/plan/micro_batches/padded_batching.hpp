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
  std::int64_t max_tokens = 8192;  ///< the cap: samples times padded length of one micro-batch
  std::int64_t length_round = 64;  ///< padded lengths are multiples of it
  std::int64_t max_samples = std::numeric_limits<std::int64_t>::max();  ///< most samples of a micro-batch
  std::int64_t min_count = 1;                                           ///< fewest micro-batches
  std::int64_t count_multiple = 1;  ///< the number of micro-batches is one of it: pp with virtual stages
  /// A micro-batch of samples without tokens is length_round wide. False: as ROLL's code has it, 0 wide
  /// unless it is the first, which stays empty when the cap is below length_round.
  bool widen_empty_samples = true;

  friend bool operator==(const PaddedBatchingSettings&, const PaddedBatchingSettings&) = default;
};

/// One micro-batch of the grid that all DP ranks share.
struct PaddedMicroBatch {
  RowRange positions;              ///< places in every DP rank's shard
  std::int64_t padded_length = 0;  ///< L: each of its samples is padded to it on every rank

  friend constexpr bool operator==(const PaddedMicroBatch&, const PaddedMicroBatch&) = default;
};

/// Samples assigned to DP ranks and cut into padded micro-batches: a [n, L] rectangle each. Every rank has
/// the same number of micro-batches, with the same lengths.
struct PaddedBatches {
  Partition shards;  ///< group r: the samples of DP rank r by rising (length, sample)
  std::vector<PaddedMicroBatch> micro_batches;

  /// The samples of one micro-batch on one DP rank, ascending by length: positions.size() of them, fewer at
  /// the end of a shard that is one sample shorter, none in an empty micro-batch.
  /// Preconditions: both are in range.
  [[nodiscard]] std::span<const Item> samples(DpRank rank, std::int64_t micro_batch) const noexcept;
  /// Tokens over all DP ranks with their padding: what the trainer computes on. Filler of empty micro-batches
  /// is not counted.
  [[nodiscard]] std::int64_t padded_tokens() const noexcept;

  friend bool operator==(const PaddedBatches&, const PaddedBatches&) = default;
};

/// ROLL's dynamic batching (`dynamic_batching_shard`), identical to it in shards, grid and order wherever the
/// reference succeeds (for samples without tokens: with widen_empty_samples false). Samples are assigned by
/// sorted_stride; then neighbouring positions of the shards are joined while samples times length, the
/// longest over all ranks rounded up, stays within the cap.
///
/// The count becomes a multiple of count_multiple by halving: the largest micro-batches (samples times
/// length, earlier ones first) that hold more than one position, each once, then the largest of what came
/// out, as often as needed; both halves keep their length. When every micro-batch holds one position, empty
/// ones of length_round follow. There is always at least one micro-batch.
///
/// Any number of samples is accepted: the first n mod dp ranks hold one more. The cap always holds.
/// Deterministic, local, O(n log n). Throws ConfigError for a setting below 1, or a cap below length_round
/// while widen_empty_samples; LimitError that names the first sample above the cap after rounding; InputError
/// for a negative length.
///
/// Example: lengths {7, 6, 8, 5, 1, 3, 8, 6}, dp 2, max_tokens 12, length_round 2: shards {4, 3, 7, 2} and
/// {5, 1, 0, 6}, positions [0,2) [2,3) [3,4) of lengths 6, 8, 8; with count_multiple 2 [0,1) [1,2) [2,3)
/// [3,4) of lengths 6, 6, 8, 8.
[[nodiscard]] PaddedBatches plan_padded_batches(std::span<const std::int64_t> lengths,
                                                const PaddedBatchingSettings& settings);

/// The same for samples that something else has assigned to the DP ranks, of which there are `shares.size()`:
/// each share is put in order by rising (length, sample). Shares may differ in size. No DP rank has more rows
/// of a field in a micro-batch than its cap: so neighbouring positions are joined. Precondition: each sample
/// is within the caps.
[[nodiscard]] PaddedBatches plan_padded_batches(const Partition& shares,
                                                std::span<const std::int64_t> lengths,
                                                const PaddedBatchingSettings& settings,
                                                std::span<const CappedRows> capped_rows = {});

}  // namespace evenkeel
