#include <algorithm>
#include <iterator>

#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/stream/made_up_groups.hpp"
#include "bench/stream/simulated_job.hpp"
#include "stream/former.hpp"
#include "stream/step_cost_estimate.hpp"

namespace evenkeel::bench {
namespace {

using namespace stream;

constexpr double ms = 1e3;
constexpr std::uint64_t groups_seed = 11;

PlanSettings plan_of(const StreamOptions& options) {
  PlanSettings plan;
  plan.dp = options.dp;
  plan.balance.cost = CostModel::flops_7b();
  plan.micro_batch.max_tokens = options.cap;
  return plan;
}

Table forming_table(const StreamOptions& options, const GroupLengths& lengths) {
  Table table("forming", "Forming a step of 8192 waiting samples: milliseconds",
              {{"group_size", "group size"},
               {"groups", "groups of a step"},
               {"look_ahead", "look-ahead"},
               {"ms_median", "ms", 3},
               {"ms_max", "most", 3}});
  constexpr std::int64_t samples = 8192;
  const PlanSettings plan = plan_of(options);
  for (const std::int64_t group_size : {1, 8, 64}) {
    const std::int64_t all = samples / group_size;
    const auto waiting = made_up_groups(lengths, all, group_size, options.cap, groups_seed);
    for (const std::int64_t look_ahead : {0, 2, 7}) {
      StreamSettings settings;
      settings.group_size = group_size;
      settings.look_ahead = look_ahead;
      const std::int64_t of_step = all / (1 + look_ahead);
      std::vector<double> seconds;
      for (int round = 0; round < options.rounds; ++round)
        seconds.push_back(seconds_of([&] {
          (void)form_step({waiting, {}, 0, 0, of_step, false, settings, plan});
        }));
      table.add(
          {group_size, of_step, look_ahead, median(seconds) * ms, *std::ranges::max_element(seconds) * ms});
    }
  }
  return table;
}

/// Returns the time of all steps according to their plans, formed one after another from a window that is
/// kept full.
double time_of_steps(std::span<const WaitingGroup> arriving, const StreamOptions& options,
                     std::int64_t look_ahead) {
  StreamSettings settings;
  settings.group_size = options.group_size;
  settings.look_ahead = look_ahead;
  const PlanSettings plan = plan_of(options);
  const auto window = static_cast<std::size_t>((1 + look_ahead) * options.groups);
  std::vector<WaitingGroup> waiting;
  double time = 0;
  for (std::int64_t step = 0; !arriving.empty() || !waiting.empty(); ++step) {
    const std::size_t more = std::min(arriving.size(), window - std::min(window, waiting.size()));
    std::ranges::copy(arriving.first(more), std::back_inserter(waiting));
    arriving = arriving.subspan(more);
    const StepFormed formed =
        form_step({waiting, {}, step, 0, options.groups, arriving.empty(), settings, plan}).value();
    std::vector<WaitingGroup> taken;
    for (const FormedGroup& group : formed.groups) {
      const auto found = std::ranges::find(waiting, group.uid, &WaitingGroup::uid);
      taken.push_back(std::move(*found));
      waiting.erase(found);
    }
    for (const PassedOver& passed : formed.passed)
      std::ranges::find(waiting, passed.uid, &WaitingGroup::uid)->passed = passed.count;
    time += planned_time(taken, plan);
  }
  return time;
}

Table steps_table(StreamOptions options, std::span<const GroupLengths> all_lengths) {
  Table table("steps",
              "Planned training time of all steps, over one plan of all samples at once, and over first come",
              {{"lengths", "lengths"},
               {"arrival", "arrival"},
               {"dp", "dp"},
               {"first_come", "first come", 4},
               {"ahead_1", "look-ahead 1", 4},
               {"ahead_2", "2", 4},
               {"ahead_4", "4", 4},
               {"over_first_come", "2 over first come", 4}});
  for (const GroupLengths& lengths : all_lengths) {
    const auto started =
        made_up_groups(lengths, options.groups * options.steps, options.group_size, options.cap, groups_seed);
    const std::int64_t slots = 2 * options.groups * options.group_size;
    const auto finished = as_finished(started, slots);
    for (const int dp : {8, 64}) {
      options.dp = dp;
      const double at_once = planned_time(started, plan_of(options));
      for (const auto& [name, arriving] : {std::pair("queue", &started), std::pair("by length", &finished)}) {
        const double first_come = time_of_steps(*arriving, options, 0);
        const double ahead_2 = time_of_steps(*arriving, options, 2);
        table.add({lengths.name, name, options.dp, first_come / at_once,
                   time_of_steps(*arriving, options, 1) / at_once, ahead_2 / at_once,
                   time_of_steps(*arriving, options, 4) / at_once, ahead_2 / first_come});
      }
    }
  }
  return table;
}

/// Returns which of these shares of the devices should train for the job to be fastest.
constexpr double parts_that_train[] = {0.125, 0.25, 0.375, 0.5, 0.625, 0.75};

/// Counts trained tokens, since a job that drops long samples has more steps but not more tokens.
double tokens_a_second(const SimulatedRun& run) {
  return static_cast<double>(run.tokens) / run.time;
}

Table jobs_table(const StreamOptions& options, std::span<const GroupLengths> all_lengths) {
  Table table("jobs",
              "A simulated job that trains while it generates: tokens trained in a time, over one that does "
              "both in turn on the same devices",
              {{"lengths", "lengths"},
               {"max_staleness", "staleness at most"},
               {"look_ahead", "look-ahead"},
               {"trainers", "part that trains", 3},
               {"speed", "x", 2},
               {"staleness", "mean staleness", 2},
               {"stale", "stale samples"},
               {"length", "length trained / generated", 4}});
  for (const GroupLengths& lengths : all_lengths) {
    const auto groups =
        made_up_groups(lengths, options.groups * options.steps, options.group_size, options.cap, groups_seed);
    SimulatedDevices devices{plan_of(options), options.groups * options.group_size, 0, 1};
    // Training a step takes half as long as generating it, if one follows the other.
    const double generating = synchronous_job(groups, options.groups, devices).time;
    devices.token_of_cost = 1;
    devices.token_of_cost =
        generating / 2 / (synchronous_job(groups, options.groups, devices).time - generating);
    const double in_turn = tokens_a_second(synchronous_job(groups, options.groups, devices));
    for (const std::int64_t max_staleness : {0, 1, 4}) {
      for (const std::int64_t look_ahead : {0, 2}) {
        StreamSettings settings;
        settings.group_size = options.group_size;
        settings.max_staleness = max_staleness;
        settings.look_ahead = look_ahead;
        std::optional<SimulatedRun> best;
        double trainers = 0;
        for (const double part : parts_that_train) {
          devices.trainers = part;
          const SimulatedRun run = asynchronous_job(groups, options.groups, devices, settings);
          if (run.steps == 0 || (best && tokens_a_second(*best) >= tokens_a_second(run))) continue;
          best = run;
          trainers = part;
        }
        if (!best) continue;
        table.add({lengths.name, max_staleness, look_ahead, trainers, tokens_a_second(*best) / in_turn,
                   best->mean_staleness, best->stale, best->trained_length});
      }
    }
  }
  return table;
}

}  // namespace

Report bench_stream(const StreamOptions& options) {
  std::vector<GroupLengths> lengths{long_tail(options.cap)};
  for (const std::string& file : options.lengths) lengths.push_back(lengths_of_file(file, options.cap));
  Report report{
      "stream",
      {{"groups", options.groups},
       {"group_size", options.group_size},
       {"dp", options.dp},
       {"steps", options.steps},
       {"cap", options.cap},
       {"rounds", options.rounds}},
      {forming_table(options, lengths.front()), steps_table(options, lengths), jobs_table(options, lengths)},
      {}};
  report.notes.emplace_back(
      "Times of steps are those of their plans, flops-7b, where ranks meet once a step; a window is full "
      "before a "
      "step is formed. \"By length\": in the order in which an engine ends groups that has slots for two "
      "steps' "
      "samples.");
  report.notes.emplace_back(
      "Jobs: all devices have slots for one step's samples, a token each at a time, however many are used; "
      "training "
      "a step takes half as long as generating one. Devices are divided between both in the best of 6 ways.");
  return report;
}

}  // namespace evenkeel::bench
