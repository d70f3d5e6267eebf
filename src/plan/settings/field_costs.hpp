#pragma once

#include <span>
#include <string>

#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/length_table.hpp"

namespace evenkeel {

/// The work of every entry as BalanceSettings::cost_field says it: a view of the table. Throws InputError
/// where samples do not bring the field.
[[nodiscard]] std::span<const Cost> field_costs_of(const LengthTable& table, const std::string& field);

}  // namespace evenkeel
