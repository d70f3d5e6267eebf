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

/// Returns the work of every entry, as supplied in the field that BalanceSettings::cost_field names. The
/// result is a view of the table. Throws InputError if samples do not have the field.
[[nodiscard]] std::span<const Cost> field_costs_of(const LengthTable& table, const std::string& field);

/// The encoder work of each DP rank.
struct EncoderWork {
  std::vector<Cost> in_source_order;  ///< work if DP ranks got contiguous runs of samples in source order
  std::vector<Cost> assigned;

  friend bool operator==(const EncoderWork&, const EncoderWork&) = default;
};

/// Returns the encoder work of every entry, from its number of rows in the encoder's field. Throws InputError
/// if samples do not have counted rows in that field, and LimitError if the work of a sample is 2^62 or more.
[[nodiscard]] std::vector<Cost> encoder_costs_of(const LengthTable& table, const EncoderCost& encoder);

/// Returns the encoder work of an assigned step. Precondition: settings.balance.encoder is set.
[[nodiscard]] EncoderWork encoder_work_of(const LengthTable& table, const PlanSettings& settings,
                                          const StepAssignment& assignment);
/// Returns the encoder work of a plan. Precondition: settings.balance.encoder is set.
[[nodiscard]] EncoderWork encoder_work_of(const LengthTable& table, const PlanSettings& settings,
                                          const StepPlan& plan);

}  // namespace evenkeel
