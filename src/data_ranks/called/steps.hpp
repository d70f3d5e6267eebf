#pragma once

#include <cstdint>

#include "data_ranks/data_line.hpp"
#include "data_ranks/hosted/held_passes.hpp"
#include "data_ranks/least_of_all.hpp"
#include "mesh/fail_together.hpp"
#include "service/ahead/around_steps.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/state/resume_checks.hpp"

namespace evenkeel {

/// What a trainer's Prefetcher does around its steps where it has data ranks: where no thread makes them,
/// calls data ranks to each; where threads do, tells them what the trainer holds.
class CalledSteps final : public AroundSteps {
 public:
  /// Calls data ranks to make their part of such a prefetcher. What goes wrong goes to `work`.
  static void call_for_prefetcher(const StepsWanted& wanted, const Resumption* from, GuardedWork& work);

  [[nodiscard]] AssignedBy assigned_by() const noexcept override { return AssignedBy::first_without_a_place; }
  void begin(const StepMaker& maker) override { maker_ = &maker; }
  void call_for_step() override;
  [[nodiscard]] bool all_go_on(const Communicator& everyone, bool goes_on) override;
  [[nodiscard]] RaggedBatch read(const Reader& reader, std::int64_t step) override;
  [[nodiscard]] Step keep(Step made) override;
  void end(StepsAhead& steps) noexcept override;

 private:
  [[nodiscard]] DataCall call(DataCallKind kind);
  [[nodiscard]] std::uint64_t first_held() { return held_.first().value_or(maker_->next_serial()); }

  const StepMaker* maker_ = nullptr;
  HeldPasses held_;
  HeldPasses::PassRoom room_;
  LeastOfAll least_;
};

}  // namespace evenkeel
