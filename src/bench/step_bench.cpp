#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "bench/measurement.hpp"
#include "bench/prefetch_bench.hpp"
#include "bench/transfer_job.hpp"

namespace evenkeel::bench {
namespace {

/// One step over all ranks: the mean of each phase; then what is in none of them; then the time that the mean
/// rank waits for the slowest one. They add up to the slowest rank's step.
std::vector<Phase> rows_of(const std::vector<std::string>& names,
                           const std::vector<std::vector<double>>& by_rank) {
  std::vector<Phase> rows;
  const auto ranks = static_cast<double>(by_rank.size());
  double in_phases = 0;
  double total = 0;
  double slowest = 0;
  for (std::size_t p = 0; p < names.size(); ++p) {
    double sum = 0;
    for (const std::vector<double>& of_rank : by_rank) sum += of_rank[p];
    rows.push_back({names[p], sum / ranks});
    in_phases += sum / ranks;
  }
  for (const std::vector<double>& of_rank : by_rank) {
    total += of_rank.back();
    slowest = std::max(slowest, of_rank.back());
  }
  rows.push_back({"between phases", total / ranks - in_phases});
  rows.push_back({"wait for the slowest rank", slowest - total / ranks});
  return rows;
}

double sum_of(const std::vector<Phase>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double total, const Phase& row) { return total + row.seconds; });
}

/// The round whose step took the median time, so that the rows shown are of one step and add up.
std::vector<Phase> median_round(std::vector<std::vector<Phase>> rounds) {
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::ranges::nth_element(rounds, middle, {}, sum_of);
  return *middle;
}

Table phase_table(const std::vector<Phase>& rows) {
  Table table("phases", "Phases of the step of median time (means over ranks)",
              {{"phase", "phase"}, {"ms", "ms", 3}, {"share", "% of the step", 2}});
  const double step = sum_of(rows);
  for (const Phase& row : rows) table.add({row.name, row.seconds * 1e3, row.seconds / step * 100});
  table.add({"step", step * 1e3, 100.0});
  return table;
}

}  // namespace

Report bench_step(const boost::mpi::communicator& world, const TransferOptions& options) {
  TransferJob job(world, options);
  std::vector<std::vector<Phase>> rounds;
  std::int64_t micro_batches = 0;
  for (int round = -1; round < options.rounds; ++round) {
    world.barrier();
    const TimedStep step = job.step(ExchangePath::automatic);
    std::vector<std::string> names;
    std::vector<double> mine;
    for (const Phase& phase : step.phases) {
      names.push_back(phase.name);
      mine.push_back(phase.seconds);
    }
    mine.push_back(step.seconds);
    const std::vector<std::vector<double>> by_rank = at_first_rank(world, mine);
    if (round >= 0 && world.rank() == 0) rounds.push_back(rows_of(names, by_rank));
    micro_batches = step.micro_batches;
  }
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
  if (prefetch) report.tables.push_back(*std::move(prefetch));
  return report;
}

}  // namespace evenkeel::bench
