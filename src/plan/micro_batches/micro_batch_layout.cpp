#include "plan/micro_batches/micro_batch_layout.hpp"

#include <utility>
#include <vector>

namespace evenkeel {
namespace {

/// Returns the trees of a micro-batch's units, joined into one forest.
PrefixTree make_forest(const StepAssignment& assignment, const MicroBatchPlan& plan) {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends;
  for (const UnitId unit : plan.units) {
    const PrefixTree& tree = *assignment.units[unit].tree;
    const std::int64_t first = std::ssize(nodes);
    for (const TreeSegment& segment : tree.segments())
      nodes.push_back({segment.parent == -1 ? -1 : first + segment.parent, segment.rows.size()});
    for (const std::int64_t end : tree.sample_ends()) ends.push_back(end == -1 ? -1 : first + end);
  }
  return {nodes, std::move(ends)};
}

}  // namespace

SequenceLayout sequences_of(const MicroBatchPlan& plan, const PlanSettings& settings) {
  if (settings.delivery == Delivery::samples) return {};
  return {settings.alignment(plan.context.size),
          plan.padded_length,
          {plan.context.size, settings.cp.layout},
          plan.shape};
}

std::int64_t rows_of(const MicroBatchPlan& plan, const PlanSettings& settings) noexcept {
  return settings.delivery == Delivery::samples ? plan.tokens : plan.aligned_tokens;
}

PackedMicroBatch lay_out(const StepProblem& problem, const StepAssignment& assignment,
                         const MicroBatchPlan& plan, CpRank member) {
  const SequenceLayout sequences = sequences_of(plan, problem.settings);
  // If sequences are not cut, every member has all rows.
  if (sequences.cp.size == 1) member = CpRank{0};
  std::vector<SampleShape> samples;
  for (const EntryId entry : plan.entries) samples.push_back(problem.table[entry].shape);
  if (!assignment.shared()) return lay_out(std::move(samples), sequences, member);
  PackedMicroBatch micro_batch =
      lay_out_shared(std::move(samples), make_forest(assignment, plan), sequences, member);
  const PlanSettings& settings = problem.settings;
  if (settings.schedule == SegmentSchedule::depth_first)
    micro_batch.shared->schedule = depth_first_schedule(micro_batch.shared->tree, settings.max_kept_tokens);
  return micro_batch;
}

}  // namespace evenkeel
