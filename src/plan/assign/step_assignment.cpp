#include "plan/assign/step_assignment.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

/// Returns the entries of each group over all mini-batches, concatenated.
IdGroups<EntryId> entries_by_group(const StepAssignment& assignment) {
  if (assignment.mini_batches.size() == 1 && !assignment.has_shared_prefixes())
    return IdGroups<EntryId>(
        assignment.mini_batches.front().units.items());  // a unit has the same number as its entry
  std::vector<std::vector<EntryId>> shares(assignment.groups.size());
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::size_t g = 0; g < shares.size(); ++g) {
      std::vector<EntryId>& share = shares[g];
      const std::ptrdiff_t first = std::ssize(share);
      for (const UnitId unit : mini_batch.units[static_cast<std::int64_t>(g)]) {
        const std::span<const EntryId> entries = assignment.units[unit].entries;
        share.insert(share.end(), entries.begin(), entries.end());
      }
      // Sort, since the samples of a unit need not be consecutive in the table.
      if (assignment.has_shared_prefixes()) std::sort(share.begin() + first, share.end());
    }
  }
  return IdGroups<EntryId>(shares);
}

/// Returns one group per DP rank, which consists of the places (DataPlace) of this DP rank.
std::vector<ContextGroup> groups_of_dp_ranks(const PlanSettings& settings) {
  std::vector<ContextGroup> groups;
  for (int r = 0; r < settings.dp; ++r) groups.push_back(settings.context_of(DpRank{r}));
  return groups;
}

/// Returns an assignment with units and the groups of DP ranks, but without assigned units.
StepAssignment unassigned_step(const StepProblem& problem) {
  StepAssignment assignment;
  assignment.step = problem.step;
  assignment.units = make_units(problem);
  assignment.groups = groups_of_dp_ranks(problem.settings);
  return assignment;
}

/// Returns an assignment in which each unit is assigned to a group. The derived fields are not set yet.
StepAssignment assignment_of_units(const StepProblem& problem) {
  StepAssignment assignment = unassigned_step(problem);
  strategy_of(problem.settings).assign(problem, assignment);
  return assignment;
}

/// Fills in the fields that are derived from the assigned units.
StepAssignment complete_assignment(const StepProblem& problem, StepAssignment assignment) {
  strategy_of(problem.settings).add_joint_micro_batches(problem, assignment);
  assignment.shares = entries_by_group(assignment);
  assignment.segments = segments_of_units(problem, assignment);
  return assignment;
}

void require_valid_problem(const StepProblem& problem) {
  problem.settings.validate();
  strategy_of(problem.settings).require_samples_fit(problem.table, problem.settings);
  require_within_path_cap(problem.table, problem.settings);
  require_within_row_caps(problem.table, problem.settings.micro_batch);
}

/// Returns, for each unit, the size of the group that runs it.
std::vector<int> group_size_by_unit(const StepAssignment& assignment) {
  std::vector<int> sizes(static_cast<std::size_t>(assignment.units.size()));
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::size_t g = 0; g < assignment.groups.size(); ++g) {
      for (const UnitId unit : mini_batch.units[static_cast<std::int64_t>(g)])
        sizes[unit.index()] = assignment.groups[g].size;
    }
  }
  return sizes;
}

/// Returns the segments without prefix sharing: each sample is one unit and one segment.
SegmentTable whole_sample_segments(const PlanSettings& settings, const StepAssignment& assignment) {
  const std::span<const std::int64_t> lengths = assignment.units.rows();
  std::vector<Segment> segments(lengths.size());
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::size_t g = 0; g < assignment.groups.size(); ++g) {
      const int size = assignment.groups[g].size;
      const std::int64_t alignment = settings.alignment(size);
      for (const UnitId unit : mini_batch.units[static_cast<std::int64_t>(g)]) {
        const std::int64_t length = lengths[unit.index()];
        segments[unit.index()] = {EntryId{unit.value()}, {0, length}, align_up(length, alignment), size};
      }
    }
  }
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    const JointMicroBatches& joint = mini_batch.joint;
    for (std::int64_t m = 0; m < joint.size(); ++m) {
      const std::int64_t length = joint.figures_of(m).padded_length;
      if (length == 0) continue;
      for (const UnitId unit : joint.units_of(m)) segments[unit.index()].aligned_length = length;
    }
  }
  return {std::move(segments), assignment.shares};
}

/// Returns the segments of each group, in the order of its units.
IdGroups<SegmentId> segment_shares(const StepAssignment& assignment) {
  const PackUnits& units = assignment.units;
  std::vector<std::vector<SegmentId>> shares(assignment.groups.size());
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::int64_t r = 0; r < mini_batch.units.size(); ++r) {
      std::vector<SegmentId>& share = shares[static_cast<std::size_t>(r)];
      for (const UnitId unit : mini_batch.units[r])
        std::ranges::copy(units.segments_of(unit), std::back_inserter(share));
    }
  }
  return IdGroups<SegmentId>(shares);
}

SegmentTable shared_segments(const StepProblem& problem, const StepAssignment& assignment) {
  const PackUnits& units = assignment.units;
  const std::vector<int> sizes = group_size_by_unit(assignment);
  std::vector<Segment> segments;
  SegmentPaths paths{{}, std::vector<SegmentId>(static_cast<std::size_t>(problem.table.size()), no_segment)};
  for (const UnitId u : ids_below<UnitId>(units.size())) {
    const PackUnit unit = units[u];
    const int size = sizes[u.index()];
    const std::int64_t alignment = problem.settings.alignment(size);
    const auto segment_id_of = [&](std::int64_t s) {
      return s == -1 ? no_segment : SegmentId{units.first_segment(u).value() + s};
    };
    for (std::size_t i = 0; i < unit.entries.size(); ++i) {
      paths.ends[unit.entries[i].index()] =
          segment_id_of(unit.tree->sample_end(static_cast<std::int64_t>(i)));
    }
    for (const TreeSegment& segment : unit.tree->segments()) {
      paths.parents.push_back(segment_id_of(segment.parent));
      segments.push_back({unit.entries[static_cast<std::size_t>(segment.first_sample)], segment.source(),
                          align_up(segment.rows.size(), alignment), size});
    }
  }
  return {std::move(segments), paths, segment_shares(assignment)};
}

}  // namespace

std::vector<EntryId> StepAssignment::entries_of(MiniBatchId mini_batch) const {
  EVENKEEL_PRECONDITION(cheap, 0 <= mini_batch.value() && mini_batch.value() < std::ssize(mini_batches),
                        mini_batch.value(), mini_batches.size());
  std::vector<EntryId> entries;
  for (const UnitId unit : mini_batches[mini_batch.index()].units.ids()) {
    const std::span<const EntryId> of_unit = units[unit].entries;
    entries.insert(entries.end(), of_unit.begin(), of_unit.end());
  }
  return entries;
}

StepAssignment assign_step(const StepProblem& problem) {
  require_valid_problem(problem);
  return complete_assignment(problem, assignment_of_units(problem));
}

std::vector<IdGroups<UnitId>> assign_units(const StepProblem& problem) {
  require_valid_problem(problem);
  std::vector<IdGroups<UnitId>> units;
  for (MiniBatchAssignment& mini_batch : assignment_of_units(problem).mini_batches)
    units.push_back(std::move(mini_batch.units));
  return units;
}

bool shares_are_derived_from_units(const PlanSettings& settings) noexcept {
  return strategy_of(settings).shares_are_derived_from_units();
}

StepAssignment assign_step_by_units(const StepProblem& problem, std::vector<IdGroups<UnitId>> units) {
  EVENKEEL_PRECONDITION(cheap, shares_are_derived_from_units(problem.settings));
  StepAssignment assignment = unassigned_step(problem);
  for (IdGroups<UnitId>& of_mini_batch : units)
    assignment.mini_batches.emplace_back().units = std::move(of_mini_batch);
  return complete_assignment(problem, std::move(assignment));
}

std::vector<SegmentId> segments_of(const StepAssignment& assignment, const MicroBatchPlan& plan) {
  std::vector<SegmentId> segments;
  if (!assignment.has_shared_prefixes()) {
    segments.reserve(plan.entries.size());
    for (const EntryId entry : plan.entries) segments.emplace_back(entry.value());
    return segments;
  }
  for (const UnitId unit : plan.units)
    std::ranges::copy(assignment.units.segments_of(unit), std::back_inserter(segments));
  return segments;
}

std::uint64_t plan_hash(const IdGroups<EntryId>& shares, std::span<const std::int64_t> counts) noexcept {
  Fnv1a hash;
  for (const std::int64_t count : counts) hash.add(count);
  for (std::int64_t g = 0; g < shares.size(); ++g) {
    hash.add(std::ssize(shares[g]));
    for (const EntryId entry : shares[g]) hash.add(entry.value());
  }
  return hash.value();
}

SegmentTable segments_of_units(const StepProblem& problem, const StepAssignment& assignment) {
  return assignment.has_shared_prefixes() ? shared_segments(problem, assignment)
                                          : whole_sample_segments(problem.settings, assignment);
}

}  // namespace evenkeel
