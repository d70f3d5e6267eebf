#pragma once

#include "plan/strategies/fixed_micro_batches.hpp"
#include "plan/strategies/packed_micro_batches.hpp"
#include "plan/strategies/padded_micro_batches.hpp"

namespace evenkeel {

/// Reproduces the micro-batches of another system exactly (see plan/reference/micro_batches.hpp), including
/// those that exceed the cap. The lower bound on their number is the bound for packing under the cap.
class PresetMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override;

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> pack_at_most(MiniBatchShare share,
                                                         std::int64_t count) const override;
};

/// Returns the system's name in configurations; empty for Preset::none.
[[nodiscard]] std::string_view name_of(Preset preset) noexcept;

/// Mixin that keeps the reproduced system's assignment of shares to DP ranks: shares are not placed by
/// locality.
template <class Way>
class WithReferencePlacement : public Way {
 public:
  [[nodiscard]] std::string_view reproduced_system(const PlanSettings& settings) const noexcept final {
    return name_of(std::get<ReferenceSettings>(settings.strategy).system);
  }
  [[nodiscard]] bool depends_on_owners(const PlanSettings& /*settings*/) const noexcept final {
    return false;
  }

 private:
  void place(const StepProblem& /*problem*/, StepAssignment& /*assignment*/) const final {}
};

/// Assigns samples to DP ranks with the algorithm of the preset's system, for BalanceAlgorithm::automatic.
[[nodiscard]] Partition assign_with_preset(std::span<const std::int64_t> lengths,
                                           const PlanSettings& settings);

template <class Way>
class WithReferenceAssignment : public WithReferencePlacement<Way> {
 public:
  [[nodiscard]] Partition assign_automatically(const AssignedWork& work,
                                               const PlanSettings& settings) const final {
    return assign_with_preset(work.rows, settings);
  }
};

/// Strategies that reproduce the partition of another system. PresetPackedStrategy also reproduces its
/// micro-batches, whereas PresetFixedStrategy makes micro-batches of a fixed size. PresetPaddedStrategy
/// reproduces ROLL's dynamic batching, which assigns samples in the same way as PaddedStrategy.
class PresetPackedStrategy final : public WithReferenceAssignment<PackedStrategy> {
 public:
  [[nodiscard]] std::unique_ptr<const MicroBatcher> make_micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
};
class PresetFixedStrategy final : public WithReferenceAssignment<FixedStrategy> {};
class PresetPaddedStrategy final : public WithReferencePlacement<PaddedStrategy> {};

}  // namespace evenkeel
