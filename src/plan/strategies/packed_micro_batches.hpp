#pragma once

#include "evenkeel/balance/bin_packing.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// Packs units into micro-batches under the limits. Balances the costs of the micro-batches or, if a packing
/// algorithm is configured, uses that algorithm without balancing. Units are in ascending order within a
/// micro-batch; micro-batches are in the configured order (MicroBatchSettings::order). If DP ranks may have
/// different counts, each gets agreed_count() of its own number.
class PackedMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override;

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> pack_at_most(MiniBatchShare share,
                                                         std::int64_t count) const override;
  void complete(std::vector<MicroBatchPlan>& micro_batches, MiniBatchShare share,
                std::int64_t count) const override;
};

/// Packed micro-batches; each DP rank packs and orders its own. Units are assigned so that DP ranks need few
/// micro-batches: a rank gets one more only if that saves more time than the overhead of a micro-batch
/// (balance_binned_items).
class PackedStrategy : public HierarchicalStrategy {
 public:
  [[nodiscard]] Partition assign_automatically(const AssignedWork& work,
                                               const PlanSettings& settings) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> make_micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
};

}  // namespace evenkeel
