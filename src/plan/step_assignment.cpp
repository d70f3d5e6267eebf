#include "plan/step_assignment.hpp"

#include <algorithm>
#include <utility>

#include "base/hash.hpp"
#include "evenkeel/base/assertions.hpp"
#include "plan/grid_micro_batches.hpp"
#include "plan/micro_batches.hpp"
#include "plan/mini_batches.hpp"
#include "plan/padded_micro_batches.hpp"
#include "plan/placement.hpp"
#include "plan/step_placement.hpp"
#include "plan/unit_segments.hpp"

namespace evenkeel {
namespace {

/// What each DP rank has over all mini-batches, one after the other.
Partition whole_shares(const StepAssignment& assignment, int dp) {
  if (assignment.mini_batches.size() == 1 && !assignment.shared())
    return assignment.mini_batches.front().units;
  std::vector<std::vector<Item>> shares(static_cast<std::size_t>(dp));
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (int r = 0; r < dp; ++r) {
      std::vector<Item>& share = shares[static_cast<std::size_t>(r)];
      const std::ptrdiff_t first = std::ssize(share);
      for (const Item unit : mini_batch.units[r]) {
        const std::span<const std::int64_t> entries = assignment.units[unit].entries;
        share.insert(share.end(), entries.begin(), entries.end());
      }
      // Samples of a unit may stand far from each other in the table.
      if (assignment.shared()) std::sort(share.begin() + first, share.end());
    }
  }
  return Partition(shares);
}

/// The units, and who gets them; with a grid the micro-batches too.
StepAssignment units_assigned(const StepProblem& problem) {
  StepAssignment assignment;
  assignment.step = problem.step;
  assignment.units = make_units(problem);
  if (problem.settings.balance.strategy == Strategy::grid) {
    for (const std::vector<Item>& units : cut_into_mini_batches(problem, assignment.units))
      assignment.mini_batches.push_back(assign_grid(problem, assignment.units, units));
  } else {
    for (Partition& units : split_into_mini_batches(problem, assignment.units))
      assignment.mini_batches.emplace_back().units = std::move(units);
  }
  place_shares(problem, assignment);
  return assignment;
}

/// Adds what follows from who gets what.
StepAssignment completed(const StepProblem& problem, StepAssignment assignment) {
  if (problem.settings.micro_batch.mode == MicroBatchMode::padded) {
    for (MiniBatchAssignment& mini_batch : assignment.mini_batches)
      mini_batch.joint = plan_padded(problem, assignment.units, mini_batch.units);
  }
  assignment.shares = whole_shares(assignment, problem.settings.dp);
  assignment.segments = segments_of_units(problem, assignment);
  return assignment;
}

void require_fitting(const StepProblem& problem) {
  problem.settings.validate();
  require_samples_fit(problem.table, problem.settings);
}

}  // namespace

std::vector<std::int64_t> StepAssignment::entries_of(std::int64_t mini_batch) const {
  EVENKEEL_PRECONDITION(cheap, 0 <= mini_batch && mini_batch < std::ssize(mini_batches), mini_batch,
                        mini_batches.size());
  std::vector<std::int64_t> entries;
  for (const Item unit : mini_batches[static_cast<std::size_t>(mini_batch)].units.items()) {
    const std::span<const std::int64_t> of_unit = units[unit].entries;
    entries.insert(entries.end(), of_unit.begin(), of_unit.end());
  }
  return entries;
}

StepAssignment assign_step(const StepProblem& problem) {
  require_fitting(problem);
  return completed(problem, units_assigned(problem));
}

std::vector<Partition> assign_units(const StepProblem& problem) {
  require_fitting(problem);
  std::vector<Partition> units;
  for (MiniBatchAssignment& mini_batch : units_assigned(problem).mini_batches)
    units.push_back(std::move(mini_batch.units));
  return units;
}

bool follows_from_units(const PlanSettings& settings) noexcept {
  return settings.balance.strategy != Strategy::grid;
}

StepAssignment assign_step_by_units(const StepProblem& problem, std::vector<Partition> units) {
  EVENKEEL_PRECONDITION(cheap, follows_from_units(problem.settings));
  StepAssignment assignment;
  assignment.step = problem.step;
  assignment.units = make_units(problem);
  for (Partition& of_mini_batch : units)
    assignment.mini_batches.emplace_back().units = std::move(of_mini_batch);
  return completed(problem, std::move(assignment));
}

std::vector<std::int64_t> segments_of(const StepAssignment& assignment, const MicroBatchPlan& plan) {
  if (!assignment.shared()) return plan.entries;
  std::vector<std::int64_t> segments;
  for (const std::int64_t unit : plan.units) {
    const std::int64_t end = assignment.units.first_segment(unit + 1);
    for (std::int64_t s = assignment.units.first_segment(unit); s < end; ++s) segments.push_back(s);
  }
  return segments;
}

std::uint64_t plan_hash(const Partition& shares, std::span<const std::int64_t> counts) noexcept {
  Fnv1a hash;
  for (const std::int64_t count : counts) hash.add(count);
  for (std::int64_t g = 0; g < shares.size(); ++g) {
    hash.add(std::ssize(shares[g]));
    for (const Item item : shares[g]) hash.add(item);
  }
  return hash.value();
}

}  // namespace evenkeel
