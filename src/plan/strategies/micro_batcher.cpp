#include "plan/strategies/micro_batcher.hpp"

#include "evenkeel/base/assertions.hpp"
#include "plan/strategies/fixed_micro_batches.hpp"
#include "plan/strategies/joint_micro_batcher.hpp"
#include "plan/strategies/packed_micro_batches.hpp"
#include "plan/strategies/preset_micro_batches.hpp"

namespace evenkeel {

std::vector<MicroBatchPlan> MicroBatcher::pack(MiniBatchShare share, std::int64_t count) const {
  EVENKEEL_PRECONDITION(thorough, count >= this->count(share).needed, count, share.mini_batch, share.rank);
  std::vector<MicroBatchPlan> micro_batches = packed(share, count);
  // In a tree every rank has as many as it takes part in, or an empty one.
  if (!settings().is_context_tree()) micro_batches.resize(static_cast<std::size_t>(count));
  for (MicroBatchPlan& m : micro_batches) {
    m.mini_batch = share.mini_batch;
    if (!settings().flexible) m.context = settings().context_of(share.rank);
  }
  return micro_batches;
}

std::unique_ptr<const MicroBatcher> make_micro_batcher(const StepProblem& problem,
                                                       const StepAssignment& assignment) {
  const PlanSettings& settings = problem.settings;
  switch (settings.micro_batch.mode) {
    case MicroBatchMode::fixed:
      return std::make_unique<FixedMicroBatcher>(problem, assignment);
    case MicroBatchMode::padded:
      return std::make_unique<JointMicroBatcher>(problem, assignment);
    case MicroBatchMode::packed:
      break;
  }
  if (settings.balance.strategy == Strategy::grid || settings.flexible)
    return std::make_unique<JointMicroBatcher>(problem, assignment);
  if (settings.balance.preset != Preset::none)
    return std::make_unique<PresetMicroBatcher>(problem, assignment);
  return std::make_unique<PackedMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
