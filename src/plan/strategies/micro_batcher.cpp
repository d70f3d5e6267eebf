#include "plan/strategies/micro_batcher.hpp"

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

std::vector<MicroBatchPlan> MicroBatcher::pack(MiniBatchShare share, std::int64_t count) const {
  EVENKEEL_PRECONDITION(thorough, count >= this->count(share).needed, count, share.mini_batch, share.rank);
  std::vector<MicroBatchPlan> micro_batches = pack_at_most(share, count);
  complete(micro_batches, share, count);
  for (MicroBatchPlan& m : micro_batches) m.mini_batch = share.mini_batch;
  return micro_batches;
}

void MicroBatcher::complete(std::vector<MicroBatchPlan>& micro_batches, MiniBatchShare share,
                            std::int64_t count) const {
  micro_batches.resize(static_cast<std::size_t>(count));
  for (MicroBatchPlan& m : micro_batches) m.context = settings().context_of(share.rank);
}

}  // namespace evenkeel
