#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/micro_batches/micro_batches.hpp"
#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {

/// Hands out what one plan over all DP ranks has made already.
class JointMicroBatcher : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override {
    return mini_batch(share).joint.count;
  }

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> packed(MiniBatchShare share,
                                                   std::int64_t /*count*/) const override {
    const JointMicroBatches& joint = mini_batch(share).joint;
    const std::span<const std::int64_t> of_rank = joint.of_rank(share.rank);
    std::vector<MicroBatchPlan> own;
    own.reserve(of_rank.size());
    for (const std::int64_t m : of_rank)
      own.push_back(micro_batch_of(units(), joint.units_of(m), joint.figures_of(m)));
    return own;
  }
};

}  // namespace evenkeel
