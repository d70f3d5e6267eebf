#pragma once

#include <span>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// Deals all samples of a step to the DP ranks so that each gets an equal share of the work: group r of the
/// result holds the table entries of DP rank r, ascending (in the reference's order where a preset deals).
/// Any number of samples is accepted; with fewer samples than ranks some get none. Local and deterministic on
/// replicated input, so that every rank finds the same answer.
[[nodiscard]] Partition assign_to_dp_ranks(const LengthTable& table, const PlanSettings& settings);

/// Deals things of this work to the DP ranks by the settings' algorithm and speeds, each rank's ascending:
/// what assign_to_dp_ranks does with samples where neither a preset nor padding asks for another way.
[[nodiscard]] Partition deal_by_cost(std::span<const Cost> costs, const PlanSettings& settings);

/// The work of every entry under the settings' cost model.
[[nodiscard]] std::vector<Cost> costs_of(const LengthTable& table, const PlanSettings& settings);

/// The work of each DP rank if samples went out in contiguous runs in source order: what balancing is
/// compared with.
[[nodiscard]] std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings);

}  // namespace evenkeel
