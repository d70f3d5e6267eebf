#include "plan/units/unit_segments.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

/// The size of the group that runs each unit.
std::vector<int> group_sizes(const StepAssignment& assignment) {
  std::vector<int> sizes(static_cast<std::size_t>(assignment.units.size()));
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::size_t g = 0; g < assignment.groups.size(); ++g) {
      for (const UnitId unit : mini_batch.units[static_cast<std::int64_t>(g)])
        sizes[unit.index()] = assignment.groups[g].size;
    }
  }
  return sizes;
}

/// Every sample is one segment, and a unit.
SegmentTable whole_samples(const PlanSettings& settings, const StepAssignment& assignment) {
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

/// The segments of each group, unit after unit as it has them.
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
  const std::vector<int> sizes = group_sizes(assignment);
  std::vector<Segment> segments;
  SegmentPaths paths{{}, std::vector<SegmentId>(static_cast<std::size_t>(problem.table.size()), no_segment)};
  for (const UnitId u : ids_below<UnitId>(units.size())) {
    const PackUnit unit = units[u];
    const int size = sizes[u.index()];
    const std::int64_t alignment = problem.settings.alignment(size);
    const auto numbered = [&](std::int64_t s) {
      return s == -1 ? no_segment : SegmentId{units.first_segment(u).value() + s};
    };
    for (std::size_t i = 0; i < unit.entries.size(); ++i) {
      paths.ends[unit.entries[i].index()] = numbered(unit.tree->sample_end(static_cast<std::int64_t>(i)));
    }
    for (const TreeSegment& segment : unit.tree->segments()) {
      paths.parents.push_back(numbered(segment.parent));
      segments.push_back({unit.entries[static_cast<std::size_t>(segment.first_sample)], segment.source(),
                          align_up(segment.rows.size(), alignment), size});
    }
  }
  return {std::move(segments), paths, segment_shares(assignment)};
}

}  // namespace

SegmentTable segments_of_units(const StepProblem& problem, const StepAssignment& assignment) {
  return assignment.shared() ? shared_segments(problem, assignment)
                             : whole_samples(problem.settings, assignment);
}

}  // namespace evenkeel
