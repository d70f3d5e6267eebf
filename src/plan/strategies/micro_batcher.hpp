#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/assign/step_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"

namespace evenkeel {

/// One DP rank's share of one mini-batch.
struct MiniBatchShare {
  MiniBatchId mini_batch{0};
  DpRank rank{0};
};

/// Counts and makes the micro-batches of a DP rank's share of a mini-batch, for one strategy. Local,
/// deterministic. Refers to its constructor's arguments, which must outlive it.
class MicroBatcher {
 public:
  MicroBatcher(const StepProblem& problem, const StepAssignment& assignment)
      : problem_(problem), assignment_(assignment) {}
  MicroBatcher(const MicroBatcher&) = delete;
  MicroBatcher& operator=(const MicroBatcher&) = delete;
  virtual ~MicroBatcher() = default;

  /// Returns the number of micro-batches that the share needs, before the DP ranks agree on a count.
  [[nodiscard]] virtual GroupCount count(MiniBatchShare share) const = 0;
  /// Returns exactly `count` micro-batches, in execution order, some of them empty if there are too few
  /// units. If DP ranks may have different numbers of micro-batches, ignores `count` and returns as many as
  /// the share needs. Precondition: count >= count(share).needed.
  [[nodiscard]] std::vector<MicroBatchPlan> pack(MiniBatchShare share, std::int64_t count) const;

 protected:
  /// Returns at most `count` micro-batches.
  [[nodiscard]] virtual std::vector<MicroBatchPlan> pack_at_most(MiniBatchShare share,
                                                                 std::int64_t count) const = 0;
  /// Appends empty micro-batches up to the count, and sets the CP group of each micro-batch to the places
  /// (DataPlace) of the DP rank.
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

/// A MicroBatcher that only looks up the DP rank's micro-batches in a joint plan made earlier
/// (JointMicroBatches).
class JointMicroBatcher : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override {
    return mini_batch(share).joint.count;
  }

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> pack_at_most(MiniBatchShare share,
                                                         std::int64_t /*count*/) const override {
    const JointMicroBatches& joint = mini_batch(share).joint;
    const std::span<const std::int64_t> of_rank = joint.micro_batches_of(share.rank);
    std::vector<MicroBatchPlan> own;
    own.reserve(of_rank.size());
    for (const std::int64_t m : of_rank)
      own.push_back(micro_batch_of(units(), joint.units_of(m), joint.figures_of(m)));
    return own;
  }
};

}  // namespace evenkeel
