#pragma once

#include "plan/micro_batcher.hpp"

namespace evenkeel {

/// Hands out what one plan over all DP ranks has made already: a grid, or padded micro-batches.
class JointMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override {
    return mini_batch(share).joint.count;
  }

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> packed(MiniBatchShare share,
                                                   std::int64_t /*count*/) const override {
    return mini_batch(share).joint.of_ranks[share.rank.index()];
  }
};

}  // namespace evenkeel
