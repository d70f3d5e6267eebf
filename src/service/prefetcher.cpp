#include "evenkeel/service/prefetcher.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/environment.hpp>
#include <boost/mpi/operations.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "service/equal_on_ranks.hpp"
#include "service/stopwatch.hpp"

namespace evenkeel {
namespace {

bool all_of(const boost::mpi::communicator& world, bool mine) {
  return boost::mpi::all_reduce(world, mine ? 1 : 0, boost::mpi::minimum<int>()) == 1;
}

}  // namespace

Prefetcher::Prefetcher(const boost::mpi::communicator& world, const Config& config, std::int64_t steps,
                       Reader read, std::string profile)
    : service_(world, config),
      read_(std::move(read)),
      profile_(std::move(profile)),
      steps_(steps),
      depth_(config.exchange.prefetch) {
  require_equal_on_ranks(service_.mesh().world(), {{"steps", std::to_string(steps_)}, {"profile", profile_}},
                         "Construct it with the same number of steps and the same profile on every rank");
  if (depth_ < 0)
    throw ConfigError("exchange.prefetch", "is " + std::to_string(depth_) + "; it must be at least 0");
  static_cast<void>(service_.plan_settings(profile_));  // tells an unknown profile now
  const bool multiple = boost::mpi::environment::thread_level() == boost::mpi::threading::multiple;
  if (depth_ == 0 || !all_of(service_.mesh().world(), multiple)) return;
  // The service has made all its communicators: the thread makes none, which could meet one the trainer
  // makes.
  thread_ = std::jthread([this](const std::stop_token& stop) { make_all(stop); });
}

std::optional<Step> Prefetcher::next() {
  if (taken_ == steps_) return std::nullopt;
  Stopwatch stopwatch;
  if (!in_background() && ready_.empty() && !end_) make_or_end();
  Made made = take();
  ++taken_;
  if (const auto* error = std::get_if<std::exception_ptr>(&made)) std::rethrow_exception(*error);
  Step step = std::get<Step>(std::move(made));
  // What it took beyond making the step was spent on waking up, by no phase of it.
  step.waited = std::min(stopwatch.lap(), step.seconds.total());
  return step;
}

bool Prefetcher::progress() {
  if (in_background() || end_ || made_ == steps_ || is_full()) return false;
  make_or_end();
  return true;
}

Prefetcher::Made Prefetcher::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || end_; });
  if (ready_.empty()) std::rethrow_exception(end_);
  Made made = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_one();
  return made;
}

void Prefetcher::make_all(const std::stop_token& stop) {
  while (!end_ && made_ < steps_) {
    wait_for_room(stop);
    make_or_end(&stop);
  }
}

void Prefetcher::wait_for_room(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return !is_full(); });
}

void Prefetcher::make_or_end(const std::stop_token* stop) {
  Made made;
  std::exception_ptr end;
  try {
    Stopwatch stopwatch;
    if (stop != nullptr) require_all_go_on(*stop);
    const double meeting = stopwatch.lap();
    made = make_next();
    // Ranks meet here first: who waits for others does so as in gathering.
    if (auto* step = std::get_if<Step>(&made)) step->seconds.gather += meeting;
  } catch (...) {
    end = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    end_ = end;
    if (!end_) ready_.push_back(std::move(made));
  }
  changed_.notify_one();
}

void Prefetcher::require_all_go_on(const std::stop_token& stop) const {
  // A rank that is told to stop meets here those that wait for room until they are told too: all leave having
  // begun the same steps.
  if (!all_of(service_.mesh().world(), !stop.stop_requested()))
    throw std::logic_error("a rank destroyed its Prefetcher at an earlier step");
}

Prefetcher::Made Prefetcher::make_next() {
  const std::int64_t step = made_++;
  try {
    return service_.step([&] { return read_(step); }, profile_);
  } catch (const MpiError&) {
    throw;  // maybe this rank's alone, with the others left inside the step
  } catch (const Error&) {
    return std::current_exception();
  }
}

}  // namespace evenkeel
