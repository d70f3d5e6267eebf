#include "bench/plan/placement_bench.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "balance/partition/automatic.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "plan/placement/placement.hpp"

namespace evenkeel::bench {
namespace {

void add(Table& table, int dp, int rounds) {
  constexpr std::size_t samples_of_a_rank = 64;
  const std::size_t n = samples_of_a_rank * static_cast<std::size_t>(dp);
  const std::vector<std::int64_t> tokens = made_up_lengths(n, 7);
  std::vector<Cost> costs;
  for (const std::int64_t length : tokens) costs.push_back(CostModel::flops_7b()(length));
  const Partition parts = balance_items(costs, dp, GroupSize::free);
  std::mt19937_64 engine(11);
  std::vector<WorldRank> owners;
  for (std::size_t i = 0; i < n; ++i)
    owners.emplace_back(static_cast<int>(draw_below(engine, static_cast<std::size_t>(dp))));
  std::vector<int> dp_of_rank(static_cast<std::size_t>(dp));
  std::iota(dp_of_rank.begin(), dp_of_rank.end(), 0);
  Placement placement;
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(seconds_of([&] {
      placement = best_placement(
          parts,
          {.owners = owners, .bytes = tokens, .dp_of_rank = dp_of_rank, .own_weight = 1, .node_weight = 0});
    }));
  }
  const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  const std::int64_t by_number = all - placement.identity_value;
  const auto share = [&](std::int64_t stays) {
    return static_cast<double>(all - stays) / static_cast<double>(by_number);
  };
  table.add({dp, n, all, by_number, all - placement.value, share(placement.value),
             share(placement.upper_bound), median(seconds) * 1e3});
}

}  // namespace

Table tokens_moved(const PlanOptions& options) {
  Table table("placement", "Placement: 64 samples a DP rank, balanced on flops, owners at random",
              {{"dp", "dp"},
               {"samples", "samples"},
               {"tokens", "tokens"},
               {"moved_by_number", "moved, part r to rank r"},
               {"moved", "moved, placed"},
               {"ratio", "x", 4},
               {"least_ratio", "its lower bound", 4},
               {"ms_median", "ms, median", 3}});
  for (const int dp : {8, 16, 32, 64, 256, 1024}) {
    if (static_cast<std::size_t>(dp) * 64 <= options.max_items) add(table, dp, options.rounds);
  }
  return table;
}

}  // namespace evenkeel::bench
