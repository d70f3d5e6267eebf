#include "plan/strategies/hierarchical.hpp"

#include <utility>

#include "plan/assign/dp_assignment.hpp"
#include "plan/placement/placement.hpp"

namespace evenkeel {

void HierarchicalStrategy::assign(const StepProblem& problem, StepAssignment& assignment) const {
  for (IdGroups<UnitId>& units : split_into_mini_batches(problem, assignment.units))
    assignment.mini_batches.emplace_back().units = std::move(units);
  place(problem, assignment);
}

void HierarchicalStrategy::place(const StepProblem& problem, StepAssignment& assignment) const {
  place_shares(problem, assignment);
}

}  // namespace evenkeel
