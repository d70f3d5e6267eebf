#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// Splits items 0..n-1 into k contiguous runs whose sizes differ by at most one, larger runs first. This is
/// the assignment without balancing. Preconditions: items >= 0, k >= 1.
[[nodiscard]] Partition contiguous_runs(std::int64_t items, std::int64_t k);

/// Sorts items by ascending (length, item) and deals them out: group g gets positions g, g+k, ... of that
/// order, so position i of every group has nearly the same length. This is how ROLL's dynamic batching
/// assigns samples to DP ranks. The first n mod k groups have one more item. O(n log n). Precondition: k >=
/// 1.
///
/// Example: lengths {7, 6, 8, 5} with k = 2 give groups {3, 0} and {1, 2}.
[[nodiscard]] Partition sorted_stride(std::span<const std::int64_t> lengths, std::int64_t k);

/// The work to be assigned to DP ranks. Each item is a sample, or a unit of samples that share prefixes. All
/// lists that are not empty have one element per item.
struct AssignedWork {
  std::span<const Cost> costs;
  std::span<const std::int64_t> rows;     ///< tokens without padding; shared tokens count once
  std::span<const Cost> encoder_costs{};  ///< empty if encoder work is not balanced
  /// Amounts counted toward the micro-batch limits; empty if DP ranks do not pack their whole share at once.
  BinItems items{};
  BinLimits limits{};
};

/// Balances work over the DP ranks: group r of the result holds the items of DP rank r, ascending (or in the
/// reference system's order if balance.preset determines the assignment). Accepts any number of items; with
/// fewer items than ranks, some ranks get no items. Local and deterministic on replicated input, so every
/// rank computes the same result.
[[nodiscard]] Partition assign_to_dp_ranks(const AssignedWork& work, const PlanSettings& settings);

/// Returns the work of each entry on its own, without prefix sharing, under the settings' cost. Throws
/// InputError if the cost is that of a field that the samples do not have, and LimitError if the cost of a
/// sample is 2^62 or more.
[[nodiscard]] std::vector<Cost> costs_of(const LengthTable& table, const PlanSettings& settings);

/// Returns the work that each DP rank would have if it got a contiguous run of samples in source order. This
/// is the baseline for balancing.
[[nodiscard]] std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings);

/// Cuts a step into mini-batches before units are assigned to DP ranks, and returns the units of each
/// mini-batch, ascending. Never splits a group of samples that share prefixes. The numbers of groups of the
/// mini-batches differ by at most one. Each mini-batch is a run of groups in their order, or in a random
/// order if the settings request shuffling. Pure, deterministic.
[[nodiscard]] IdGroups<UnitId> cut_into_mini_batches(const StepProblem& problem, const PackUnits& units);

/// Splits a step into mini-batches, and each mini-batch over the DP ranks: element m has the units of each DP
/// rank in mini-batch m. Every unit is in exactly one of these groups.
/// - With mini_batches.keep, mini-batches are cut first, and each is assigned by assign_to_dp_ranks().
/// - Otherwise, the whole step is assigned, and each rank's share is cut at random into one part per
///   mini-batch.
/// With fewer groups or units than mini-batches, some mini-batches are empty. Pure and deterministic on
/// replicated input.
[[nodiscard]] std::vector<IdGroups<UnitId>> assign_by_mini_batch(const StepProblem& problem,
                                                                 const PackUnits& units);

}  // namespace evenkeel
