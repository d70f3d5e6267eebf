#include "service/ahead/steps_ahead.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/steps.hpp"
#include "mesh/fail_together.hpp"
#include "service/equal_on_ranks.hpp"
#include "service/step/time_reports.hpp"

namespace evenkeel {
namespace {

void require_not_negative(std::int64_t steps, std::int64_t depth) {
  if (steps < 0) {
    throw InputError("steps", "is " + std::to_string(steps) + "; it must be at least 0",
                     "Pass the number of steps that the trainer will take");
  }
  if (depth < 0)
    throw ConfigError("exchange.prefetch", "is " + std::to_string(depth) + "; it must be at least 0",
                      "Use 0 to make no steps ahead");
}

/// Returns the StepsAhead of a service. Throws MpiError if MPI is not running. Every collective function of
/// Steps calls this first.
StepsAhead& checked_steps_ahead(ServiceParts& service) {
  require_ranks_of_one_group(service.maker->mesh().world());
  return *service.ahead;
}

}  // namespace

StepsAhead::StepsAhead(const Communicator& world, const Config& config, StepsRequest wanted,
                       const ServiceState& from)
    : maker_(world, config, from),
      read_(std::move(wanted.read)),
      profile_(std::move(wanted.profile)),
      steps_(wanted.steps),
      depth_(config.exchange.prefetch),
      made_(from.next_step),
      taken_(from.next_step) {
  const auto compared_settings = [&] {
    return std::vector<ConfigSetting>{{"steps", std::to_string(steps_)}, {"profile", profile_}};
  };
  require_equal_on_ranks(maker_.mesh().world(), run_together(maker_.mesh().world(), compared_settings),
                         "Ask for the same number of steps and the same profile on every rank");
  fail_together(
      maker_.mesh().world(), try_on_replicated_data([&] {
        costs_ = from.costs;
        shapes_ = maker_.shapes();
        require_not_negative(steps_, depth_);
        static_cast<void>(maker_.plan_settings(profile_));  // Throws here if the profile is unknown.
      }));
  if (depth_ > 0 && maker_.mesh().world().allows_threads()) start_thread();
}

// The thread must not create communicators, since the trainer may be creating one at the same time. The
// constructor has created all communicators that the thread needs.
void StepsAhead::start_thread() {
  const auto error =
      try_locally([&] { thread_ = std::jthread([this](const std::stop_token& stop) { make_all(stop); }); });
  // If any rank failed to start its thread, all ranks throw here. The destructors then stop the threads that
  // were started, which have not made any steps yet.
  fail_together(maker_.mesh().world(), error);
  {
    const std::lock_guard lock(ready_->mutex);
    ready_->has_begun = true;
  }
  ready_->changed.notify_all();
}

std::optional<Step> StepsAhead::next() {
  if (taken_ >= steps_ || has_ended_) return std::nullopt;
  Stopwatch stopwatch;
  if (is_step_made_by_next()) queue_next_step();
  MadeStep made = take();
  has_ended_ = std::holds_alternative<EndOfSteps>(made);
  if (has_ended_) return std::nullopt;
  ++taken_;
  if (const auto* error = std::get_if<std::exception_ptr>(&made)) std::rethrow_exception(*error);
  Step step = std::get<Step>(std::move(made));
  if (const auto cost = saved_cost(step.record->cost)) costs_[profile_] = *cost;
  shapes_ = step.record->shapes;
  // If next() took longer than the phases of the step, this thread spent the rest of the time waking up,
  // which does not count as waiting.
  step.waited_seconds = std::min(stopwatch.lap(), step.seconds.total());
  return step;
}

ServiceState StepsAhead::state() const {
  ServiceState state = maker_.state_at(taken_);
  state.costs = costs_;
  if (shapes_) state.shapes = *shapes_;
  return state;
}

bool StepsAhead::progress() {
  if (!is_step_made_by_progress()) return false;
  queue_next_step();
  return true;
}

void StepsAhead::stop() noexcept {
  const Waiting waiting("its thread that makes steps", WaitFor::thread);
  thread_ = {};
  ready_->made.clear();
  read_ = nullptr;  // Release the objects that the reader keeps alive.
}

StepsAhead::MadeStep StepsAhead::take() {
  const Waiting waiting("its thread that makes steps", WaitFor::thread);
  std::unique_lock lock(ready_->mutex);
  ready_->changed.wait(lock, [&] { return !ready_->made.empty() || ready_->fatal_error; });
  if (ready_->made.empty()) std::rethrow_exception(ready_->fatal_error);
  MadeStep made = std::move(ready_->made.front());
  ready_->made.pop_front();
  lock.unlock();
  ready_->changed.notify_all();
  return made;
}

void StepsAhead::make_all(const std::stop_token& stop) {
  const Phase phase("make steps ahead");
  {
    const Waiting waiting("room for a step", WaitFor::trainer);
    std::unique_lock lock(ready_->mutex);
    if (!ready_->changed.wait(lock, stop, [&] { return ready_->has_begun; })) return;
  }
  while (has_steps_to_make()) {
    wait_for_room(stop);
    queue_next_step(&stop);
  }
}

void StepsAhead::wait_for_room(const std::stop_token& stop) {
  const Waiting waiting("room for a step", WaitFor::trainer);
  std::unique_lock lock(ready_->mutex);
  ready_->changed.wait(lock, stop, [&] { return !is_full(); });
}

void StepsAhead::queue_next_step(const std::stop_token* stop) {
  MadeStep made;
  std::exception_ptr fatal_error;
  try {
    Stopwatch stopwatch;
    if (stop != nullptr) agree_to_continue(*stop);
    const double meeting = stopwatch.lap();
    made = make_next();
    // Count the agreement as gathering, since ranks wait for each other in both.
    if (auto* step = std::get_if<Step>(&made)) step->seconds.gather += meeting;
  } catch (...) {
    fatal_error = std::current_exception();
  }
  {
    const std::lock_guard lock(ready_->mutex);
    ready_->fatal_error = fatal_error;
    if (!fatal_error) ready_->made.push_back(std::move(made));
  }
  ready_->changed.notify_all();
}

void StepsAhead::agree_to_continue(const std::stop_token& stop) {
  // Either all ranks make the next step, or none of them does. A rank that was asked to stop waits here for
  // the other ranks, which may still be waiting for room in their queues.
  const int goes_on = stop.stop_requested() ? 0 : 1;
  if (maker_.mesh().world().all_reduce(goes_on, ReduceOp::min) == 0)
    throw InputError("step", "was not made, because a rank stopped taking steps before it",
                     "Stop taking steps after the same step on every rank");
}

StepsAhead::MadeStep StepsAhead::make_next() {
  const std::int64_t step = made_++;
  try {
    maker_.set_next_step(step);  // a failed step does not advance the number
    const auto read = [&] { return read_(step); };
    return maker_.make_first_pass(std::ref(read), profile_);
  } catch (const MpiError&) {
    throw;  // The error may exist only on this rank, while other ranks are still inside the step.
  } catch (const EndOfSamples&) {
    no_more_ = true;
    return EndOfSteps{};
  } catch (const Error&) {
    return std::current_exception();
  }
}

Steps::Steps(Steps&& other) noexcept : service_(std::exchange(other.service_, nullptr)) {}

Steps::~Steps() {
  if (service_ == nullptr) return;
  service_->ahead->stop();
  service_->makes_ahead = false;
}

bool Steps::in_background() const noexcept {
  return service_->ahead->in_background();
}

std::optional<Step> Steps::next() {
  return checked_steps_ahead(*service_).next();
}

bool Steps::progress() {
  return checked_steps_ahead(*service_).progress();
}

}  // namespace evenkeel
