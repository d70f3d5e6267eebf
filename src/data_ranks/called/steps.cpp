#include "data_ranks/called/steps.hpp"

#include <utility>

#include "data_ranks/called/service.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

void CalledSteps::call_for_prefetcher(const StepsWanted& wanted, const Resumption* from, GuardedWork& work) {
  DataCall call;
  call.kind = DataCallKind::make_prefetcher;
  call.number = wanted.steps;
  work([&] { call.profile = wanted.profile; });
  DataLine::tell_to_make(std::move(call), from, work);
}

// Where there is a thread, that one tells what is held.
DataCall CalledSteps::call(DataCallKind kind) {
  DataCall call;
  call.kind = kind;
  call.service = maker_->service();
  call.held = first_held();
  return call;
}

void CalledSteps::call_for_step() {
  GuardedWork work;  // the call takes no memory
  DataLine::tell(call(DataCallKind::make_step), work);
}

bool CalledSteps::all_go_on(const Communicator& everyone, bool goes_on) {
  const auto held = static_cast<std::int64_t>(first_held());
  return least_.of({goes_on ? 1 : 0, held}, everyone, true)[0] != 0;
}

RaggedBatch CalledSteps::read(const Reader& reader, std::int64_t step) {
  room_ = HeldPasses::room_for_pass();
  return require_none(reader(step));
}

Step CalledSteps::keep(Step made) {
  held_.add(made.record->origin.serial, made.record, std::move(room_));
  return made;
}

// The step that is being made may wait for samples, on data ranks.
void CalledSteps::end(StepsAhead& steps) noexcept {
  GuardedWork work;  // there is nobody left to tell what goes wrong
  work([&] {
    DataCall stop;
    stop.kind = DataCallKind::stop_waiting;
    DataLine::tell(stop, work);
  });
  steps.stop();
  work([&] {
    const DataCall last = call(DataCallKind::end_prefetcher);
    DataLine::tell_of_end(last, std::move(held_), work);
  });
}

}  // namespace evenkeel
