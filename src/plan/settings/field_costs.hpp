#pragma once

#include <span>
#include <string>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// The work of every entry as BalanceSettings::cost_field says it: a view of the table. Throws InputError
/// where samples do not bring the field.
[[nodiscard]] std::span<const Cost> field_costs_of(const LengthTable& table, const std::string& field);

/// What an encoder does for the samples of each DP rank.
struct EncoderWork {
  std::vector<Cost> in_source_order;  ///< if samples went out in contiguous runs in source order
  std::vector<Cost> assigned;

  friend bool operator==(const EncoderWork&, const EncoderWork&) = default;
};

/// What an encoder does for every entry, by the rows that it brings. Throws InputError where samples bring no
/// field of rows of that name, and as CostModel does.
[[nodiscard]] std::vector<Cost> encoder_costs_of(const LengthTable& table, const EncoderCost& encoder);

/// Of a step that was assigned with such a cost. Precondition: settings.balance.encoder is set.
[[nodiscard]] EncoderWork encoder_work_of(const LengthTable& table, const PlanSettings& settings,
                                          const StepAssignment& assignment);
/// The same of a plan.
[[nodiscard]] EncoderWork encoder_work_of(const LengthTable& table, const PlanSettings& settings,
                                          const StepPlan& plan);

}  // namespace evenkeel
