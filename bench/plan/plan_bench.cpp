#include <fmt/format.h>

#include <algorithm>

#include "balance/partition/automatic.hpp"
#include "balance/quality.hpp"
#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/capped_bench.hpp"
#include "bench/plan/grid_bench.hpp"
#include "bench/plan/lengths.hpp"
#include "bench/plan/placement_bench.hpp"
#include "bench/plan/ranks_bench.hpp"
#include "bench/plan/scale_bench.hpp"
#include "bench/plan/shapes_bench.hpp"
#include "bench/python.hpp"
#include "bench/python_scripts.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "io/samples/lengths_file.hpp"

namespace evenkeel::bench {
namespace {

constexpr std::uint64_t lengths_seed = 7;
constexpr double ms = 1e3;

struct Size {
  std::size_t items = 0;
  std::int64_t groups = 0;
};

constexpr Size differencing_sizes[] = {{512, 8}, {8192, 256}, {1048576, 2048}};
constexpr Size quality_sizes[] = {{512, 8},     {1024, 64},     {4096, 64},     {8192, 256},
                                  {32768, 512}, {131072, 1024}, {1048576, 2048}};

const char* name_of(GroupSize group_size) {
  return group_size == GroupSize::equal ? "equal" : "free";
}

std::vector<Cost> costs_of(std::size_t items, const CostModel& model) {
  std::vector<Cost> costs = made_up_lengths(items, lengths_seed);
  for (Cost& cost : costs) cost = model(cost);
  return costs;
}

/// Returns whether pure Python takes only seconds: it takes k steps per merge, and n or n / k merges.
bool python_can_follow(Size size, GroupSize group_size) {
  constexpr double patience = 3e6;
  const auto n = static_cast<double>(size.items);
  return group_size == GroupSize::equal ? n <= patience / 10
                                        : n * static_cast<double>(size.groups) <= patience;
}

struct DifferencingCase {
  Size size;
  GroupSize group_size = GroupSize::free;
  std::vector<Cost> costs;
};

std::vector<DifferencingCase> differencing_cases(const PlanOptions& options) {
  std::vector<DifferencingCase> cases;
  for (const Size size : differencing_sizes) {
    if (size.items > options.max_items) continue;
    for (const GroupSize group_size : {GroupSize::free, GroupSize::equal}) {
      cases.push_back({size, group_size, costs_of(size.items, CostModel::tokens())});
    }
  }
  return cases;
}

/// The same method in Python for those cases that it can follow in reasonable time, in order.
PythonAnswer python_differencing(const PlanOptions& options, std::span<const DifferencingCase> cases) {
  nlohmann::json question = nlohmann::json::array();
  for (const DifferencingCase& c : cases) {
    if (!python_can_follow(c.size, c.group_size)) continue;
    question.push_back({{"costs", c.costs},
                        {"k", c.size.groups},
                        {"equal", c.group_size == GroupSize::equal},
                        {"rounds", c.size.items > 4096 ? 1 : 3}});
  }
  if (question.empty()) return {nullptr, "no case is small enough"};
  return run_python(options.python, differencing_script, {{"cases", std::move(question)}});
}

/// What Python took, plainly and tuned, how often that is what we took, and whether all found the same.
void add_answer(const nlohmann::json& answer, double our_seconds, const std::vector<Cost>& our_sums,
                std::vector<nlohmann::json>& row) {
  bool same = true;
  for (const char* way : {"plain", "tuned"}) {
    const auto seconds = answer.at(way).at("seconds").get<double>();
    row.insert(row.end(), {seconds * ms, seconds / our_seconds});
    same = same && answer.at(way).at("sums") == nlohmann::json(our_sums);
  }
  row.push_back(same ? "yes" : "NO");
}

Table differencing(const PlanOptions& options, std::vector<std::string>& notes) {
  const std::vector<DifferencingCase> cases = differencing_cases(options);
  const PythonAnswer python = python_differencing(options, cases);
  if (!python.problem.empty()) notes.push_back("No comparison with Python: " + python.problem);
  Table table(
      "karmarkar_karp",
      "Karmarkar-Karp on tokens" + (python.problem.empty() ? ", against the same method in pure Python " +
                                                                 python.value.at("version").get<std::string>()
                                                           : std::string()),
      {{"n", "n"},
       {"k", "k"},
       {"group_size", "counts"},
       {"ms_median", "ms, median", 3},
       {"ms_min", "least", 3},
       {"ms_max", "most", 3},
       {"python_ms", "plain Python, ms", 1},
       {"speed", "x", 0},
       {"tuned_python_ms", "tuned Python, ms", 1},
       {"tuned_speed", "x", 0},
       {"equal_sums", "same sums"}});
  std::size_t answered = 0;
  for (const DifferencingCase& c : cases) {
    Partition partition;
    std::vector<double> seconds;
    for (int round = 0; round <= options.rounds; ++round) {
      seconds.push_back(
          seconds_of([&] { partition = karmarkar_karp(c.costs, c.size.groups, c.group_size); }));
    }
    seconds.erase(seconds.begin());
    std::vector<nlohmann::json> row{c.size.items,
                                    c.size.groups,
                                    name_of(c.group_size),
                                    median(seconds) * ms,
                                    std::ranges::min(seconds) * ms,
                                    std::ranges::max(seconds) * ms};
    if (python.problem.empty() && python_can_follow(c.size, c.group_size)) {
      add_answer(python.value.at("answers").at(answered++), median(seconds), group_sums(partition, c.costs),
                 row);
    }
    constexpr std::size_t columns = 11;
    row.resize(columns);
    table.add(std::move(row));
  }
  return table;
}

void add_quality(Table& table, const PlanOptions& options, Size size, const char* cost,
                 const CostModel& model, GroupSize group_size) {
  const std::vector<Cost> costs = costs_of(size.items, model);
  const auto bound = static_cast<double>(max_sum_lower_bound(costs, size.groups, group_size));
  const BalanceQuality plain =
      balance_quality(group_sums(karmarkar_karp(costs, size.groups, group_size), costs));
  Partition partition;
  std::vector<double> seconds;
  for (int round = 0; round < options.rounds; ++round) {
    seconds.push_back(seconds_of([&] { partition = balance_items(costs, size.groups, group_size); }));
  }
  const BalanceQuality balanced = balance_quality(group_sums(partition, costs));
  table.add({cost, size.items, size.groups, name_of(group_size), plain.max_over_mean, balanced.max_over_mean,
             static_cast<double>(balanced.max) / bound, median(seconds) * ms, std::ranges::min(seconds) * ms,
             std::ranges::max(seconds) * ms});
}

Table quality(const PlanOptions& options) {
  Table table("automatic", "Automatic balance (start, refinement), against plain Karmarkar-Karp",
              {{"cost", "cost"},
               {"n", "n"},
               {"k", "k"},
               {"group_size", "counts"},
               {"karmarkar_karp_max_over_mean", "Karmarkar-Karp max/mean", 6},
               {"max_over_mean", "max/mean", 6},
               {"max_over_lower_bound", "max/lower bound", 6},
               {"ms_median", "ms, median", 3},
               {"ms_min", "least", 3},
               {"ms_max", "most", 3}});
  for (const auto& [cost, model] :
       {std::pair{"tokens", CostModel::tokens()}, std::pair{"flops", CostModel::flops_7b()}}) {
    for (const Size size : quality_sizes) {
      if (size.items > options.max_items) continue;
      for (const GroupSize group_size : {GroupSize::free, GroupSize::equal})
        add_quality(table, options, size, cost, model, group_size);
    }
  }
  return table;
}

}  // namespace

Report bench_plan(const PlanOptions& options) {
  // What is wrong with the table is told now, and not after minutes.
  if (!options.lengths.empty()) (void)read_length_table(InputFile(options.lengths));
  const LogNormal distribution;
  Report report{
      "plan",
      {{"lengths", fmt::format("lognormal({}, {}) cut to [{}, {}], seed {}", distribution.mu,
                               distribution.sigma, distribution.min, distribution.max, lengths_seed)},
       {"flops", "24576 s + s^2"},
       {"cap", options.cap},
       {"draws", options.draws},
       {"rounds", options.rounds}},
      {},
      {}};
  constexpr std::size_t million = 1U << 20U;
  if (options.max_items >= million) {
    report.tables.push_back(plan_of_a_million(options));
    report.tables.push_back(pieces_by_ranks(options));
  }
  report.tables.push_back(differencing(options, report.notes));
  report.tables.push_back(quality(options));
  report.tables.push_back(capped_made_up(options));
  if (!options.lengths.empty()) {
    report.tables.push_back(capped_from_table(options));
    report.tables.push_back(padding_to_few_shapes(options));
  }
  report.tables.push_back(waiting_of_grids(options));
  report.tables.push_back(tokens_moved(options));
  return report;
}

}  // namespace evenkeel::bench
