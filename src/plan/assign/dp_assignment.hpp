#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// Items 0..n-1 in k runs that differ by one item at most, the longer ones first: what comes without
/// balancing. Preconditions: items >= 0, k >= 1.
[[nodiscard]] Partition contiguous_runs(std::int64_t items, std::int64_t k);

/// Items by rising (length, item), every k-th to the same group: group g holds positions g, g+k, ... of that
/// order, so that position i of every group has nearly the same length. ROLL's dynamic batching assigns
/// samples to DP ranks like this. The first n mod k groups hold one item more. O(n log n). Precondition: k
/// >= 1.
///
/// Example: lengths {7, 6, 8, 5}, k = 2: groups {3, 0} and {1, 2}.
[[nodiscard]] Partition sorted_stride(std::span<const std::int64_t> lengths, std::int64_t k);

/// What is assigned to DP ranks as wholes: samples, or units of samples that share prefixes. Lists of equal
/// length.
struct AssignedWork {
  std::span<const Cost> costs;
  std::span<const std::int64_t> rows;     ///< true tokens, shared ones once
  std::span<const Cost> encoder_costs{};  ///< none where no encoder's work is shared out
};

/// Assigns work to the DP ranks so that each gets an equal share of it: group r of the result holds the items
/// of DP rank r, ascending (in the reference's order where a preset assigns). Any number of items is
/// accepted; with fewer items than ranks some get none. Local and deterministic on replicated input, so that
/// every rank finds the same answer.
[[nodiscard]] Partition assign_to_dp_ranks(const AssignedWork& work, const PlanSettings& settings);

/// The work of every entry under the settings' cost, were it alone. Throws as field_costs_of does.
[[nodiscard]] std::vector<Cost> costs_of(const LengthTable& table, const PlanSettings& settings);

/// The work of each DP rank if samples went out in contiguous runs in source order: what balancing is
/// compared with.
[[nodiscard]] std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings);

/// Cuts a step into settings.mini_batches before anything is assigned: the units of each, ascending. Cuts
/// stand between groups of samples that share something; sizes differ by one group at most. Runs of groups in
/// order, or of a drawn order. Pure, deterministic.
[[nodiscard]] IdGroups<UnitId> cut_into_mini_batches(const StepProblem& problem, const PackUnits& units);

/// The hierarchy global batch -> mini-batch -> DP rank of one step: the units of each DP rank, mini-batch
/// after mini-batch. Every unit stands in one of them. With `keep` mini-batches are cut first and each is
/// assigned by assign_to_dp_ranks; else the step is, and each rank's share cut at random, between units. With
/// less to cut than mini-batches some are empty. Pure and deterministic on replicated input.
[[nodiscard]] std::vector<IdGroups<UnitId>> split_into_mini_batches(const StepProblem& problem,
                                                                    const PackUnits& units);

}  // namespace evenkeel
