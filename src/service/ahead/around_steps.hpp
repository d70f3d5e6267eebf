#pragma once

#include <cstdint>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/service/step.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {

class StepsAhead;

/// What is done around the steps that StepsAhead makes. This is what ranks do that all have a place in the
/// mesh; the room data_ranks says what trainers and data ranks do beyond that. Called by the thread that
/// makes steps, but for begin() and end().
class AroundSteps {
 public:
  using Reader = Prefetcher::Reader;

  AroundSteps() = default;
  AroundSteps(const AroundSteps&) = delete;
  AroundSteps& operator=(const AroundSteps&) = delete;
  virtual ~AroundSteps() = default;

  [[nodiscard]] virtual AssignedBy assigned_by() const noexcept { return AssignedBy::a_rank_of_each_node; }
  /// Before the first step. `maker` stays where it is.
  virtual void begin(const StepMaker& maker) { static_cast<void>(maker); }
  /// Before a step that is made on the trainer's own thread.
  virtual void call_for_step() {}
  /// Collective, before each step that a thread makes: whether all ranks go on.
  [[nodiscard]] virtual bool all_go_on(const Communicator& everyone, bool goes_on) {
    return everyone.all_reduce(goes_on ? 1 : 0, Extreme::least) != 0;
  }
  /// This rank's samples of a step. Takes the memory that keep() will need.
  [[nodiscard]] virtual RaggedBatch read(const Reader& reader, std::int64_t step) { return reader(step); }
  /// A step that was made, on its way to the trainer.
  [[nodiscard]] virtual Step keep(Step made) { return made; }
  /// Whether there is a trainer here, who takes what was made.
  [[nodiscard]] virtual bool hands_out() const noexcept { return true; }
  /// Before `steps` end.
  virtual void end(StepsAhead& steps) noexcept { static_cast<void>(steps); }
};

}  // namespace evenkeel
