#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/balance/partition.hpp"

/// Reproduces exactly the micro-batches that MindSpeed-RL, verl and ROLL make from one DP rank's samples, for
/// jobs that must repeat a run of these systems:
/// 1. Compute reference_count() on every DP rank.
/// 2. Compute agreed_count() of the maximum count.
/// 3. Make reference_micro_batches() with that count.
///
/// None of the three systems enforces its cap: the cap only determines the number of micro-batches, which are
/// then balanced. Evenkeel's other strategies never exceed the cap. If there are more micro-batches than
/// samples, the reference systems fail, whereas these functions return empty micro-batches. Counts are at
/// least 1.
///
/// All functions are pure and deterministic. Those that take lengths throw ConfigError if a setting that they
/// use is below 1, InputError for a negative length or total work of 2^62 or more, and LimitError for 2^31
/// samples or more, or a single sample with work of 2^62 or more.
namespace evenkeel {

/// MindSpeed-RL's dynamic batch size (`rearrange_micro_batches`). As in the reference, a sample above
/// max_tokens is not an error: it raises the count. If the count exceeds the number of samples, some
/// micro-batches are empty.
struct MindSpeedBatching {
  std::int64_t max_tokens = 8192;  ///< MindSpeed-RL's `max_packing_token_size`
  std::optional<std::int64_t>
      max_samples;  ///< `dynamic_max_batch_size`: at least ceil(samples / max_samples) micro-batches

  friend bool operator==(const MindSpeedBatching&, const MindSpeedBatching&) = default;
};

/// Settings of verl's `rearrange_micro_batches`. A sample above max_tokens causes a LimitError; verl compares
/// the width of the whole padded batch with max_tokens instead.
struct VerlBatching {
  std::int64_t max_tokens = 8192;  ///< verl's `max_token_len`
  std::int64_t min_count = 1;      ///< verl's `min_num_micro_batch`
  std::int64_t multiple_of = 1;    ///< verl's `num_batches_divided_by`
  bool pipeline_order = true;      ///< `use_dynamic_bsz_balance`: cheap micro-batches at both ends

  friend bool operator==(const VerlBatching&, const VerlBatching&) = default;
};

/// ROLL's sequence packing with `algorithm: load_balance`. Throws LimitError for a sample above max_tokens
/// before alignment; the reference compares the width of the padded batch instead.
struct RollPacking {
  std::int64_t max_tokens = 8192;  ///< ROLL's `max_packed_sequence_length_train` or `_forward`
  std::int64_t min_count = 1;      ///< ROLL's `min_num_micro_batches_train` or `_forward`
  std::int64_t multiple_of = 1;    ///< the number of virtual pipeline stages
  std::int64_t alignment = 16;     ///< ROLL's pad factor: sequence_alignment(tp, cp, 16)

  friend bool operator==(const RollPacking&, const RollPacking&) = default;
};

/// Return the number of micro-batches that one DP rank needs by the rules of the system.
/// - MindSpeed-RL: the number of groups that longest_processing_time_with_cap() returns if it starts with
///   ceil(tokens / max_tokens), at least ceil(samples / max_samples).
/// - verl: ceil(tokens / max_tokens), at most one per sample, at least min_count.
/// - ROLL: the same as verl, but with aligned lengths.
[[nodiscard]] std::int64_t reference_count(std::span<const std::int64_t> lengths,
                                           const MindSpeedBatching& batching);
[[nodiscard]] std::int64_t reference_count(std::span<const std::int64_t> lengths,
                                           const VerlBatching& batching);
[[nodiscard]] std::int64_t reference_count(std::span<const std::int64_t> lengths,
                                           const RollPacking& batching);

/// Return the count that all DP ranks use, given the maximum of their counts: that maximum, rounded up to a
/// multiple of `multiple_of` (MindSpeed-RL: not rounded). (verl with `same_micro_num_in_dp: false` rounds
/// each rank's own count.) Preconditions: largest >= 0, multiple_of >= 1.
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest, const MindSpeedBatching& batching);
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest, const VerlBatching& batching);
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest, const RollPacking& batching);

/// Return one DP rank's samples in `count` micro-batches, in the reference's order.
/// - MindSpeed-RL: karmarkar_karp() of the lengths, in the order of its result.
/// - verl, ROLL: karmarkar_karp() of the work 24576 s + s^2 of a sample of s tokens (ROLL: aligned tokens),
///   with samples ascending; then the order of MicroBatchOrder::pipeline (verl: if pipeline_order is set).
[[nodiscard]] Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                                const MindSpeedBatching& batching);
[[nodiscard]] Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                                const VerlBatching& batching);
[[nodiscard]] Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                                const RollPacking& batching);

/// ROLL's `batch_balance`, which reorders a global batch before it is cut into equal runs for the DP ranks.
/// Group r has the samples of DP rank r, and partition.items() is ROLL's new order. Uses Karmarkar-Karp with
/// equal counts on the work 24576 s + s^2 of a sample of s tokens; inside a rank, cheap samples are at both
/// ends. With `mini_batch` (ROLL's keep_minibatch), each run of that many samples over all ranks is assigned
/// separately. Identical to the reference whenever the reference succeeds.
///
/// In other cases: if dp does not divide the number of samples, counts differ by one; samples after the last
/// whole mini-batch, which the reference drops, form a smaller mini-batch. As in the reference, the final
/// order inside a rank mixes the rank's mini-batches: each rank keeps its share of every mini-batch, but the
/// boundaries between mini-batches are lost. MiniBatchSettings::keep preserves these boundaries, too.
///
/// Local, deterministic. Throws ConfigError if dp or mini_batch is below 1; InputError and LimitError as
/// described at the top of this file.
[[nodiscard]] Partition roll_batch_balance(std::span<const std::int64_t> lengths, int dp,
                                           std::optional<std::int64_t> mini_batch = std::nullopt);

}  // namespace evenkeel
