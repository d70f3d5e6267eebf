#pragma once

#include "plan/assign/dp_assignment.hpp"

namespace evenkeel::testing_support {

/// assign_to_dp_ranks for samples that are independent units.
inline Partition samples_to_dp_ranks(const LengthTable& table, const PlanSettings& settings) {
  return assign_to_dp_ranks({costs_of(table, settings), table.sample_lengths()}, settings);
}

}  // namespace evenkeel::testing_support
