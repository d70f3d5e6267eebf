#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/assign/step_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"

namespace evenkeel {

/// What one DP rank has of one mini-batch.
struct MiniBatchShare {
  MiniBatchId mini_batch{0};
  DpRank rank{0};
};

/// How a DP rank's share of a mini-batch becomes micro-batches: one class a mode, in which counting and
/// packing stand side by side. Local, deterministic. Refers to what it was made from, which must outlive it.
class MicroBatcher {
 public:
  MicroBatcher(const StepProblem& problem, const StepAssignment& assignment)
      : problem_(problem), assignment_(assignment) {}
  MicroBatcher(const MicroBatcher&) = delete;
  MicroBatcher& operator=(const MicroBatcher&) = delete;
  virtual ~MicroBatcher() = default;

  /// How many micro-batches it needs, before the DP ranks agree.
  [[nodiscard]] virtual GroupCount count(MiniBatchShare share) const = 0;
  /// Exactly `count` of them in the order to run them in, empty ones where units run out, unless DP ranks
  /// have different numbers. Precondition: count >= count(share).needed.
  [[nodiscard]] std::vector<MicroBatchPlan> pack(MiniBatchShare share, std::int64_t count) const;

 protected:
  /// At most `count`.
  [[nodiscard]] virtual std::vector<MicroBatchPlan> packed(MiniBatchShare share,
                                                           std::int64_t count) const = 0;
  /// Adds empty ones, and says who runs all of them: the places of the DP rank.
  virtual void complete(std::vector<MicroBatchPlan>& micro_batches, MiniBatchShare share,
                        std::int64_t count) const;

  [[nodiscard]] const StepProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] const PlanSettings& settings() const noexcept { return problem_.settings; }
  [[nodiscard]] const PackUnits& units() const noexcept { return assignment_.units; }
  [[nodiscard]] const MiniBatchAssignment& mini_batch(MiniBatchShare share) const noexcept {
    return assignment_.mini_batches[share.mini_batch.index()];
  }
  [[nodiscard]] IdView<UnitId> units_of(MiniBatchShare share) const noexcept {
    return mini_batch(share).units[share.rank.value()];
  }

 private:
  StepProblem problem_;
  const StepAssignment& assignment_;
};

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
