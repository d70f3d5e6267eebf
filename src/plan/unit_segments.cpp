#include "plan/unit_segments.hpp"

#include <utility>
#include <vector>

#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

/// Every sample is one segment, and a unit.
SegmentTable whole_samples(const StepAssignment& assignment, Partition shares) {
  const std::span<const std::int64_t> lengths = assignment.units.rows();
  const std::span<const std::int64_t> aligned = assignment.units.items().sizes;
  std::vector<Segment> segments;
  segments.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i)
    segments.push_back({std::ssize(segments), {0, lengths[i]}, aligned[i]});
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (const std::vector<MicroBatchPlan>& of_rank : mini_batch.joint.of_ranks) {
      for (const MicroBatchPlan& m : of_rank) {
        if (m.padded_length == 0) continue;
        for (const std::int64_t entry : m.entries)
          segments[static_cast<std::size_t>(entry)].aligned_length = m.padded_length;
      }
    }
  }
  return {std::move(segments), shares};
}

/// The segments of each DP rank, unit after unit as it has them.
Partition segment_shares(const StepAssignment& assignment, int dp) {
  const PackUnits& units = assignment.units;
  std::vector<std::vector<Item>> shares(static_cast<std::size_t>(dp));
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::int64_t r = 0; r < mini_batch.units.size(); ++r) {
      for (const Item unit : mini_batch.units[r]) {
        for (Item s = units.first_segment(unit); s < units.first_segment(unit + 1); ++s)
          shares[static_cast<std::size_t>(r)].push_back(s);
      }
    }
  }
  return Partition(shares);
}

SegmentTable shared_segments(const StepProblem& problem, const StepAssignment& assignment) {
  const PackUnits& units = assignment.units;
  const std::int64_t alignment = problem.settings.alignment();
  std::vector<Segment> segments;
  SegmentPaths paths{{}, std::vector<std::int64_t>(static_cast<std::size_t>(problem.table.size()), -1)};
  for (std::int64_t u = 0; u < units.size(); ++u) {
    const PackUnit unit = units[u];
    const auto numbered = [&](std::int64_t s) { return s == -1 ? -1 : units.first_segment(u) + s; };
    for (std::size_t i = 0; i < unit.entries.size(); ++i) {
      paths.ends[static_cast<std::size_t>(unit.entries[i])] =
          numbered(unit.tree->sample_end(static_cast<std::int64_t>(i)));
    }
    for (const TreeSegment& segment : unit.tree->segments()) {
      paths.parents.push_back(numbered(segment.parent));
      segments.push_back({unit.entries[static_cast<std::size_t>(segment.first_sample)], segment.source(),
                          align_up(segment.rows.size(), alignment)});
    }
  }
  return {std::move(segments), paths, segment_shares(assignment, problem.settings.dp)};
}

}  // namespace

SegmentTable segments_of_units(const StepProblem& problem, const StepAssignment& assignment) {
  return assignment.shared() ? shared_segments(problem, assignment)
                             : whole_samples(assignment, assignment.shares);
}

}  // namespace evenkeel
