#include "bench/plan/grid_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "balance/grid/grid_partition.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/plan_quality.hpp"

namespace evenkeel::bench {
namespace {

constexpr GridShape drawn_shape{64, 16};

struct DrawnSamples {
  std::vector<std::int64_t> tokens;
  std::vector<Cost> costs;
};

/// Number of micro-batches that leaves half a micro-batch of each rank free: 16 are needed, and sufficient.
DrawnSamples samples_for(std::int64_t cap, std::uint64_t seed) {
  constexpr std::size_t plenty = 1U << 16U;
  const CostModel model = CostModel::flops_7b();
  std::int64_t room = drawn_shape.rows * (2 * drawn_shape.columns - 1) * cap / 2;
  DrawnSamples samples;
  for (const std::int64_t length :
       made_up_lengths(plenty, seed, {7.5, 1.0, 64, std::min<std::int64_t>(32768, cap)})) {
    if (length > room) break;
    room -= length;
    samples.tokens.push_back(length);
    samples.costs.push_back(model(length));
  }
  return samples;
}

/// Costs of every rank's micro-batches in order, and how many of these contain more tokens than the cap.
struct Layout {
  std::vector<std::vector<Cost>> costs;
  std::int64_t above_cap = 0;
};

std::int64_t count_above(std::span<const std::int64_t> tokens, std::int64_t cap) {
  return std::ranges::count_if(tokens, [&](std::int64_t sum) { return sum > cap; });
}

/// Differencing over rows, then over columns, costliest micro-batch first.
Layout differenced_twice(const DrawnSamples& samples, std::int64_t cap) {
  Layout layout;
  const Partition ranks = karmarkar_karp(samples.costs, drawn_shape.rows);
  for (std::int64_t rank = 0; rank < drawn_shape.rows; ++rank) {
    DrawnSamples own;
    for (const Item item : ranks[rank]) {
      own.tokens.push_back(samples.tokens[static_cast<std::size_t>(item)]);
      own.costs.push_back(samples.costs[static_cast<std::size_t>(item)]);
    }
    const Partition micro_batches = karmarkar_karp(own.costs, drawn_shape.columns);
    layout.costs.push_back(group_sums(micro_batches, own.costs));
    layout.above_cap += count_above(group_sums(micro_batches, own.tokens), cap);
  }
  return layout;
}

Layout layout_of(const Partition& grid, const DrawnSamples& samples, std::int64_t cap) {
  Layout layout;
  const std::vector<Cost> sums = group_sums(grid, samples.costs);
  for (auto row = sums.begin(); row != sums.end(); row += drawn_shape.columns)
    layout.costs.emplace_back(row, row + drawn_shape.columns);
  layout.above_cap = count_above(group_sums(grid, samples.tokens), cap);
  return layout;
}

/// Returns the maximum cost of a micro-batch whose longest sample has `longest` tokens, for costs that grow
/// superlinearly: the maximum number of such samples that fit, and one that fills it up.
double max_cost(std::int64_t longest, std::int64_t cap) {
  const CostModel model = CostModel::flops_7b();
  const std::int64_t whole = cap / longest;
  return static_cast<double>(whole) * static_cast<double>(model(longest)) +
         static_cast<double>(model(cap % longest));
}

/// Returns a lower bound on the cost of any layout under the cap if ranks meet at the micro-batches. The
/// first t columns cost at least as much as the costliest samples that cannot share a micro-batch, and do at
/// most the work of micro-batches with the longest samples. All columns together cost at least as much as the
/// work that is left for the others.
double least_waiting(const DrawnSamples& samples, std::int64_t cap) {
  std::vector<std::int64_t> longest = samples.tokens;
  std::ranges::sort(longest, std::ranges::greater{});
  const CostModel model = CostModel::flops_7b();
  const auto rows = static_cast<std::size_t>(drawn_shape.rows);
  const double work = std::accumulate(samples.costs.begin(), samples.costs.end(), 0.0);
  double least = work / static_cast<double>(rows);
  double peaks = 0;
  double taken = 0;
  for (std::size_t first = 0; first + rows <= longest.size(); first += rows) {
    if (first > 0 && 2 * longest[first] <= cap) break;
    peaks += static_cast<double>(model(longest[first]));
    for (std::size_t i = first; i < first + rows; ++i) taken += max_cost(longest[i], cap);
    least = std::max(least, peaks + (work - taken) / static_cast<double>(rows));
  }
  return 1 - work / static_cast<double>(rows) / least;
}

/// One entry per seed.
struct GridOutcome {
  std::vector<double> samples, once_twice, every_twice, above_twice, once, every, ratio, least, seconds;
};

void add(GridOutcome& outcome, const DrawnSamples& samples, std::int64_t cap) {
  const Layout twice = differenced_twice(samples, cap);
  Partition grid;
  outcome.seconds.push_back(seconds_of(
      [&] { grid = partition_into_grid(samples.costs, samples.tokens, {.max_size = cap}, drawn_shape); }));
  const StepWaiting of_twice = step_waiting(step_balance(twice.costs));
  const StepWaiting of_grid = step_waiting(step_balance(layout_of(grid, samples, cap).costs));
  outcome.samples.push_back(static_cast<double>(samples.tokens.size()));
  outcome.once_twice.push_back(100 * of_twice.once);
  outcome.every_twice.push_back(100 * of_twice.every_micro_batch);
  outcome.above_twice.push_back(static_cast<double>(twice.above_cap));
  outcome.once.push_back(100 * of_grid.once);
  outcome.every.push_back(100 * of_grid.every_micro_batch);
  outcome.ratio.push_back(of_grid.every_micro_batch / of_twice.every_micro_batch);
  outcome.least.push_back(100 * least_waiting(samples, cap));
}

}  // namespace

Table waiting_of_grids(const PlanOptions& options) {
  const int seeds = std::min(options.draws, 21);
  Table table(
      "grid",
      fmt::format("Whole steps on dp {}, {} micro-batches a rank, balanced on flops; waiting as a share "
                  "of the step; medians of {} seeds",
                  drawn_shape.rows, drawn_shape.columns, seeds),
      {{"cap", "cap"},
       {"samples", "samples", 0},
       {"twice_above_cap", "Karmarkar-Karp twice: above the cap", 0},
       {"twice_once", "waiting, once, %", 3},
       {"twice_every", "at every micro-batch, %", 3},
       {"grid_once", "grid: waiting, once, %", 3},
       {"grid_every", "at every micro-batch, %", 3},
       {"ratio", "x Karmarkar-Karp twice", 3},
       {"worst_ratio", "worst", 3},
       {"least", "its lower bound, %", 3},
       {"ms", "ms", 1}});
  for (const std::int64_t cap : {32768, 40960, 65536}) {
    GridOutcome outcome;
    for (int seed = 1; seed <= seeds; ++seed)
      add(outcome, samples_for(cap, static_cast<std::uint64_t>(seed)), cap);
    table.add({cap, median(outcome.samples), median(outcome.above_twice), median(outcome.once_twice),
               median(outcome.every_twice), median(outcome.once), median(outcome.every),
               median(outcome.ratio), std::ranges::max(outcome.ratio), median(outcome.least),
               median(outcome.seconds) * 1e3});
  }
  return table;
}

}  // namespace evenkeel::bench
