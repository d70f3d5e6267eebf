#include <fmt/format.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "bench/data/transfer_job.hpp"
#include "bench/machine.hpp"
#include "bench/measurement.hpp"
#include "bench/steps/prefetch_bench.hpp"

namespace evenkeel::bench {
namespace {

constexpr const char* bound_note =
    "Each rank is bound to one core, and the thread that makes steps ahead shares it with the trainer. "
    "Launch with --bind-to none, or with two cores a rank (--map-by slot:PE=2).";

struct NamedPhase {
  const char* name;
  double PhaseSeconds::*seconds;
};
constexpr NamedPhase phases[] = {{"look through the samples", &PhaseSeconds::read},
                                 {"gather lengths and fields", &PhaseSeconds::gather},
                                 {"plan", &PhaseSeconds::plan},
                                 {"agree on the count", &PhaseSeconds::agree},
                                 {"exchange into packed tensors", &PhaseSeconds::exchange},
                                 {"pack loss weights", &PhaseSeconds::pack}};

/// A row of the table of phases, in seconds. Each column adds up to the slowest rank's step.
struct Phase {
  std::string name;
  double mean = 0;  ///< over ranks, including the time in which they wait for each other
  /// From when the last rank finishes the previous phase to when the last rank finishes this one.
  double front = 0;
};

/// A rank's times in a step: its phases, then the time outside of all phases.
std::vector<double> seconds_of_phases(const TimedStep& step) {
  std::vector<double> seconds;
  for (const NamedPhase& phase : phases) seconds.push_back(step.phases.*phase.seconds);
  seconds.push_back(step.seconds - step.phases.total());
  return seconds;
}

/// Returns the times of one step over all ranks, from the times of each; the last one is the time that the
/// mean rank waits for the slowest one at the end.
std::vector<Phase> rows_of(const std::vector<std::vector<double>>& by_rank) {
  std::vector<Phase> rows;
  for (const NamedPhase& phase : phases) rows.push_back({phase.name});
  rows.push_back({"free the samples"});
  std::vector<double> through(by_rank.size(), 0);
  double mean_step = 0;
  double front = 0;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      through[rank] += by_rank[rank][p];
      rows[p].mean += by_rank[rank][p] / static_cast<double>(by_rank.size());
    }
    mean_step += rows[p].mean;
    rows[p].front = std::ranges::max(through) - std::exchange(front, std::ranges::max(through));
  }
  rows.push_back({"wait for the slowest rank", front - mean_step, 0});
  return rows;
}

double sum_of(const std::vector<Phase>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double total, const Phase& row) { return total + row.front; });
}

/// Returns the round whose step took the median time, so that the rows shown belong to one step and add up.
std::vector<Phase> median_round(std::vector<std::vector<Phase>> rounds) {
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::ranges::nth_element(rounds, middle, {}, sum_of);
  return *middle;
}

Table phase_table(const std::vector<Phase>& rows) {
  Table table("phases", "Phases of the step of median time",
              {{"phase", "phase"},
               {"ms", "ms, mean of the ranks", 3},
               {"share", "% of the step", 2},
               {"front_ms", "ms until the last rank is through", 3},
               {"front_share", "% of the step", 2}});
  const double step = sum_of(rows);
  for (const Phase& row : rows)
    table.add({row.name, row.mean * 1e3, row.mean / step * 100, row.front * 1e3, row.front / step * 100});
  table.add({"step", step * 1e3, 100.0, step * 1e3, 100.0});
  return table;
}

/// Returns, on rank 0, the slowest rank's seconds of gathering, planning and agreeing alone, per round.
std::vector<double> planning_rounds(const boost::mpi::communicator& world, TransferJob& job, int rounds) {
  std::vector<double> slowest;
  for (int round = -1; round < rounds; ++round) {
    double seconds = 0;
    boost::mpi::reduce(world, job.seconds_to_plan(), seconds, boost::mpi::maximum<double>(), 0);
    if (round >= 0) slowest.push_back(seconds);
  }
  return slowest;
}

Table planning_table(const std::vector<double>& planning, double step) {
  Table table("planning", "Gather, plan and agree, with nothing else at the same time (slowest rank)",
              {{"ms_median", "ms, median", 3},
               {"ms_min", "least", 3},
               {"ms_max", "most", 3},
               {"share", "median, % of the median step", 2}});
  table.add({median(planning) * 1e3, std::ranges::min(planning) * 1e3, std::ranges::max(planning) * 1e3,
             median(planning) / step * 100});
  return table;
}

}  // namespace

Report bench_step(const boost::mpi::communicator& world, const TransferOptions& options) {
  TransferJob job(world, options);
  std::vector<std::vector<Phase>> rounds;
  std::int64_t micro_batches = 0;
  for (int round = -1; round < options.rounds; ++round) {
    const TimedStep step = job.step();
    const std::vector<std::vector<double>> by_rank = at_first_rank(world, seconds_of_phases(step));
    if (round >= 0 && world.rank() == 0) rounds.push_back(rows_of(by_rank));
    micro_batches = step.micro_batches;
  }
  const std::vector<double> planning = planning_rounds(world, job, options.rounds);
  std::optional<Table> prefetch;
  if (options.prefetch > 0) prefetch = prefetch_table(world, job, options);
  if (world.rank() != 0) return {};

  Report report{"step",
                {{"ranks", world.size()},
                 {"mesh", fmt::format("dp {}", world.size())},
                 {"samples", job.num_samples()},
                 {"bytes_per_token", job.bytes_per_token()},
                 {"bytes_of_rank_0", job.payload_bytes()},
                 {"micro_batches", micro_batches},
                 {"rounds", options.rounds}},
                {},
                {}};
  Table steps("steps", "Whole steps",
              {{"ms_median", "ms, median", 3}, {"ms_min", "least", 3}, {"ms_max", "most", 3}});
  std::vector<double> seconds;
  for (const std::vector<Phase>& round : rounds) seconds.push_back(sum_of(round));
  steps.add({median(seconds) * 1e3, std::ranges::min(seconds) * 1e3, std::ranges::max(seconds) * 1e3});
  report.tables.push_back(std::move(steps));
  report.tables.push_back(phase_table(median_round(std::move(rounds))));
  report.tables.push_back(planning_table(planning, median(seconds)));
  if (prefetch) {
    report.tables.push_back(*std::move(prefetch));
    if (usable_cores() == 1) report.notes.push_back(bound_note);
  }
  return report;
}

}  // namespace evenkeel::bench
