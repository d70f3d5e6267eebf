#include "bench/stream/simulated_job.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "stream/former.hpp"
#include "stream/step_cost_estimate.hpp"

namespace evenkeel::bench {
namespace {

using namespace stream;

constexpr double never = std::numeric_limits<double>::infinity();

double training_time(std::span<const WaitingGroup> groups, const SimulatedDevices& devices, double part) {
  return planned_time(groups, devices.plan) * devices.token_of_cost / part;
}

/// Returns the time at which the last of these is generated, if they start together on free slots.
double generation_time(std::span<const WaitingGroup> groups, std::int64_t slots) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (std::int64_t slot = 0; slot < slots; ++slot) free_at.push(0);
  double last = 0;
  for (const WaitingGroup& group : groups) {
    for (const WaitingSample& sample : group.samples) {
      const double end = free_at.top() + static_cast<double>(sample.response);
      free_at.pop();
      free_at.push(end);
      last = std::max(last, end);
    }
  }
  return last;
}

class AsynchronousJob {
 public:
  AsynchronousJob(std::span<const WaitingGroup> groups, std::int64_t groups_of_step,
                  const SimulatedDevices& devices, const StreamSettings& settings)
      : groups_(groups),
        groups_of_step_(groups_of_step),
        devices_(devices),
        ledger_(settings),
        slots_(std::max<std::int64_t>(
            1, static_cast<std::int64_t>(static_cast<double>(devices.slots) * (1 - devices.trainers)))) {}

  [[nodiscard]] SimulatedRun run(std::int64_t steps) {
    while (step_ < steps) {
      if (trained_at_ == never) form();
      generate();
      const double next = std::min(trained_at_, running_.empty() ? never : running_.top().first);
      if (next == never) break;  // nothing is left to start
      now_ = next;
      if (trained_at_ <= now_) {
        trained();
      } else {
        finished();
      }
    }
    return result();
  }

 private:
  struct Sample {
    std::size_t group = 0;
    std::size_t index = 0;
    std::int64_t version = 0;
  };
  using Running = std::pair<double, std::size_t>;  // end, and position in started_

  void tell(Event::What what) {
    ledger_.apply({++number_, std::move(what)});
    for (SamplesDropped& drop : ledger_.due_drops()) ledger_.apply({++number_, std::move(drop)});
  }

  void generate() {
    while (slots_ > std::ssize(running_)) {
      if (queue_.empty()) {
        if (next_group_ == groups_.size() || ledger_.count_grantable_groups(groups_of_step_) == 0) return;
        tell(TicketsGranted{1});
        for (std::size_t i = 0; i < groups_[next_group_].samples.size(); ++i)
          queue_.push_back({next_group_, i, 0});
        ++next_group_;
      }
      Sample sample = queue_.front();
      queue_.pop_front();
      sample.version = ledger_.version();
      const auto response = static_cast<double>(groups_[sample.group].samples[sample.index].response);
      running_.emplace(now_ + response, started_.size());
      started_.push_back(sample);
    }
  }

  void finished() {
    const Sample sample = started_[running_.top().second];
    running_.pop();
    const WaitingGroup& group = groups_[sample.group];
    const WaitingSample& of = group.samples[sample.index];
    tell(SampleAccepted{{group.uid, of.index}, of.prompt, of.response, sample.version, 0});
  }

  void form() {
    if (ledger_.status().ready_groups < groups_of_step_) return;
    const std::vector<WaitingGroup> ready = ledger_.ready();
    const std::vector<std::int64_t> coming = ledger_.versions_of_expected_groups();
    const auto formed = form_step(
        {ready, coming, step_, ledger_.version(), groups_of_step_, false, ledger_.settings(), devices_.plan});
    if (!formed) return;
    tell(*formed);
    const std::vector<WaitingGroup> groups = ledger_.untrained_steps(step_).front().groups;
    for (const WaitingGroup& group : groups) staleness_ += ledger_.version() - group.version();
    trained_at_ = now_ + training_time(groups, devices_, devices_.trainers);
  }

  void trained() {
    tell(StepTrained{step_});
    tell(VersionPublished{++step_});
    trained_at_ = never;
  }

  [[nodiscard]] SimulatedRun result() const {
    const Status status = ledger_.status();
    const auto mean = [](const Amount& amount) {
      return static_cast<double>(amount.response) /
             static_cast<double>(std::max<std::int64_t>(1, amount.samples));
    };
    Amount produced = status.received;
    SimulatedRun run{now_, step_, status.trained.response, 0, 0, mean(status.trained) / mean(produced)};
    run.stale = status.dropped[static_cast<std::size_t>(DropReason::stale)].samples +
                status.dropped[static_cast<std::size_t>(DropReason::too_small)].samples;
    run.mean_staleness = static_cast<double>(staleness_) /
                         static_cast<double>(std::max<std::int64_t>(1, step_ * groups_of_step_));
    return run;
  }

  std::span<const WaitingGroup> groups_;
  std::int64_t groups_of_step_;
  const SimulatedDevices& devices_;
  Ledger ledger_;
  std::int64_t slots_;
  std::int64_t number_ = 0;
  std::int64_t step_ = 0;
  std::int64_t staleness_ = 0;
  std::size_t next_group_ = 0;
  std::deque<Sample> queue_;
  std::vector<Sample> started_;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
  double now_ = 0;
  double trained_at_ = never;
};

}  // namespace

SimulatedRun synchronous_job(std::span<const WaitingGroup> groups, std::int64_t groups_of_step,
                             const SimulatedDevices& devices) {
  SimulatedRun run;
  run.trained_length = 1;
  const auto of_step = static_cast<std::size_t>(groups_of_step);
  for (; groups.size() >= of_step; groups = groups.subspan(of_step), ++run.steps) {
    const auto step = groups.first(of_step);
    for (const WaitingGroup& group : step)
      for (const WaitingSample& sample : group.samples) run.tokens += sample.response;
    run.time += generation_time(step, devices.slots) + training_time(step, devices, 1);
  }
  return run;
}

SimulatedRun asynchronous_job(std::span<const WaitingGroup> groups, std::int64_t groups_of_step,
                              const SimulatedDevices& devices, const StreamSettings& settings) {
  return AsynchronousJob(groups, groups_of_step, devices, settings).run(std::ssize(groups) / groups_of_step);
}

}  // namespace evenkeel::bench
