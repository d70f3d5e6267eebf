#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// Returns the maximum over the mean of k DP ranks' work. With speeds, one per rank, returns the same ratio
/// for times, which are work divided by speed. 1 if there is no work.
[[nodiscard]] double max_over_mean(std::span<const Cost> work, std::span<const std::int64_t> speeds = {});

/// The balance of a step, in the cost model's units, or in time if DP ranks have speeds. 1 is perfect.
struct StepBalance {
  double dp_max_over_mean = 1;           ///< for the DP ranks' total work
  double micro_batch_max_over_mean = 1;  ///< for single micro-batches that are not empty, over all DP ranks
  /// For ranks that meet at every micro-batch: the sum over j of the costliest j-th micro-batch, divided by a
  /// DP rank's mean work.
  double step_max_over_mean = 1;

  friend bool operator==(const StepBalance&, const StepBalance&) = default;
};

/// Computes the balance from the costs of every DP rank's micro-batches, in order; lists may differ in
/// length. Entries of 0 count as empty. `speeds` has one entry per DP rank, in any unit, or is empty.
[[nodiscard]] StepBalance step_balance(std::span<const std::vector<Cost>> micro_batch_costs,
                                       std::span<const std::int64_t> speeds = {});
[[nodiscard]] StepBalance step_balance(const StepPlan& plan, std::span<const std::int64_t> speeds = {});

/// The share of a step that an average DP rank spends waiting for the slowest one. 0 is perfect.
struct StepWaiting {
  double once = 0;               ///< if ranks meet at the end of the step
  double every_micro_batch = 0;  ///< if ranks meet at every micro-batch; never less than `once`

  friend bool operator==(const StepWaiting&, const StepWaiting&) = default;
};

/// Returns 1 - mean_r sum_j cost(r, j) / max_r sum_j cost(r, j), and the same with sum_j max_r cost(r, j) as
/// the denominator.
[[nodiscard]] StepWaiting step_waiting(const StepBalance& balance) noexcept;

/// Figures of a step under the names that ROLL and verl use. Counts of tokens below 2^53 are exact.
using NamedMetrics = std::vector<std::pair<std::string, double>>;

/// Returns ROLL's figures of dynamic batching: `valid_tokens`, `actual_tokens_origin` (all samples padded to
/// max_length, the width of the incoming tensor), `actual_tokens` (after batching, including padding),
/// `removed_padding_tokens` and `removed_padding_ratio` (0 without tokens), each prefixed by
/// `dynamic_batching/`, or by `dynamic_batching/STAGE/` if a stage is given. Throws InputError for a negative
/// length or a total of 2^62 tokens or more.
[[nodiscard]] NamedMetrics dynamic_batching_metrics(std::span<const std::int64_t> lengths,
                                                    std::int64_t actual_tokens, std::int64_t max_length,
                                                    std::string_view stage = {});

/// Returns verl's and ROLL's figures of DP balance, in tokens of one DP rank: `min`, `max` and `minmax_diff`
/// for contiguous runs of equal counts, `balanced_min` and `balanced_max` for the given assignment, and
/// `mean`, each prefixed by `PREFIX/`. Group r of `assignment` contains the samples of DP rank r; it has at
/// least one group.
[[nodiscard]] NamedMetrics seqlen_balance_metrics(std::span<const std::int64_t> lengths,
                                                  const Partition& assignment,
                                                  std::string_view prefix = "global_seqlen");

}  // namespace evenkeel
