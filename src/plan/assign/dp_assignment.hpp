#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

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

}  // namespace evenkeel
