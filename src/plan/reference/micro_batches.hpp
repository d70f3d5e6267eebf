#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

/// The micro-batches that MindSpeed-RL, verl and ROLL make of one DP rank's samples, exactly: for jobs that
/// must repeat a run of theirs. Three steps each: reference_count on every DP rank, agreed_count of the
/// largest of them, reference_micro_batches with that count.
///
/// None of the three references keeps its cap: it only decides how many micro-batches there are, and they are
/// balanced afterwards. plan_micro_batches is the one that never passes it. Where a reference stops because
/// there are more micro-batches than samples, some are empty here; counts are at least 1.
///
/// All are pure and deterministic. They throw ConfigError for a setting below 1, InputError for a negative
/// length, and as karmarkar_karp does.
namespace evenkeel {

/// MindSpeed-RL's dynamic batch size (`rearrange_micro_batches`). A sample above max_tokens is no error, as
/// in the reference: it raises the count, and empty micro-batches follow.
struct MindSpeedBatching {
  std::int64_t max_tokens = 8192;  ///< `max_packing_token_size`
  std::optional<std::int64_t>
      max_samples;  ///< `dynamic_max_batch_size`: at least n / max_samples micro-batches

  friend bool operator==(const MindSpeedBatching&, const MindSpeedBatching&) = default;
};

/// verl's `rearrange_micro_batches`. Throws LimitError for a sample above max_tokens; the reference compares
/// its padded width.
struct VerlBatching {
  std::int64_t max_tokens = 8192;  ///< `max_token_len`
  std::int64_t min_count = 1;      ///< `min_num_micro_batch`
  std::int64_t multiple_of = 1;    ///< `num_batches_divided_by`
  bool pipeline_order = true;      ///< `use_dynamic_bsz_balance`: cheap micro-batches at both ends

  friend bool operator==(const VerlBatching&, const VerlBatching&) = default;
};

/// ROLL's sequence packing with `algorithm: load_balance`. Throws LimitError for a sample above max_tokens
/// before alignment; the reference compares its padded width.
struct RollPacking {
  std::int64_t max_tokens = 8192;  ///< `max_packed_sequence_length_train` or `_forward`
  std::int64_t min_count = 1;      ///< `min_num_micro_batches_train` or `_forward`
  std::int64_t multiple_of = 1;    ///< the number of virtual pipeline stages
  std::int64_t alignment = 16;     ///< ROLL's pad factor: sequence_alignment(tp, cp, 16)

  friend bool operator==(const RollPacking&, const RollPacking&) = default;
};

/// How many micro-batches one DP rank asks for.
/// - MindSpeed-RL: the groups of longest_processing_time_with_cap, started with ceil(tokens / max_tokens).
/// - verl: ceil(tokens / max_tokens), at most one a sample, at least min_count.
/// - ROLL: as verl, on aligned lengths.
[[nodiscard]] std::int64_t reference_count(std::span<const std::int64_t> lengths,
                                           const MindSpeedBatching& batching);
[[nodiscard]] std::int64_t reference_count(std::span<const std::int64_t> lengths,
                                           const VerlBatching& batching);
[[nodiscard]] std::int64_t reference_count(std::span<const std::int64_t> lengths,
                                           const RollPacking& batching);

/// What the DP ranks agree on, from the largest count among them: rounded up to the multiple. (verl with
/// `same_micro_num_in_dp: false` rounds each rank's own count.)
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest, const MindSpeedBatching& batching);
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest, const VerlBatching& batching);
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest, const RollPacking& batching);

/// One DP rank's samples in `count` micro-batches, in the reference's order.
/// - MindSpeed-RL: karmarkar_karp on lengths, as it comes.
/// - verl, ROLL: karmarkar_karp on the work of 24576 s + s^2 (ROLL: of aligned lengths), samples ascending;
///   then the order of MicroBatchOrder::pipeline (verl: if asked).
[[nodiscard]] Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                                const MindSpeedBatching& batching);
[[nodiscard]] Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                                const VerlBatching& batching);
[[nodiscard]] Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                                const RollPacking& batching);

/// All DP ranks in one process: the micro-batches of each, all with the agreed count. `ranks` holds the
/// lengths of each rank's samples.
template <typename Batching>
[[nodiscard]] std::vector<Partition> reference_micro_batches_of_ranks(
    std::span<const std::vector<std::int64_t>> ranks, const Batching& batching) {
  std::int64_t largest = 0;
  for (const auto& lengths : ranks) largest = std::max(largest, reference_count(lengths, batching));
  std::vector<Partition> micro_batches;
  for (const auto& lengths : ranks) {
    micro_batches.push_back(reference_micro_batches(lengths, agreed_count(largest, batching), batching));
  }
  return micro_batches;
}

/// ROLL's `batch_balance`, the reordering of a global batch before it is cut into equal runs for the DP
/// ranks: group r holds the samples of DP rank r, and partition.items() is ROLL's new order. Karmarkar-Karp
/// with equal counts on the work of 24576 s + s^2; inside a rank, cheap samples stand at both ends. With
/// `mini_batch` (ROLL's keep_minibatch), each run of that many samples over all ranks is assigned on its own.
/// Identical to the reference wherever it succeeds.
///
/// Where it does not: counts that dp does not divide differ by one, and the samples after the last whole
/// mini-batch are assigned as a smaller one, where the reference drops them. Inside a rank the reference's
/// order joins the rank's mini-batches again, so that only their shares are kept, not their bounds;
/// MiniBatches keeps both.
///
/// Local, deterministic. Throws ConfigError when dp or mini_batch is below 1, and as karmarkar_karp does.
[[nodiscard]] Partition roll_batch_balance(std::span<const std::int64_t> lengths, int dp,
                                           std::optional<std::int64_t> mini_batch = std::nullopt);

}  // namespace evenkeel
