#pragma once

#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {

/// The micro-batches of another system, exactly as it makes them (see plan/reference/micro_batches.hpp). They do
/// not keep the cap where it does not. The lower bound is that of packing under the cap.
class PresetMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override;

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> packed(MiniBatchShare share, std::int64_t count) const override;
};

}  // namespace evenkeel
