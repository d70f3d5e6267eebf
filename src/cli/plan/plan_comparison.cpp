#include "cli/plan/plan_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text_layout.hpp"
#include "cli/plan/plan_figures.hpp"

namespace evenkeel::cli {
namespace {

struct Way {
  std::string name;
  PlanSettings settings;
};

std::vector<Way> ways_to_plan(const PlanSettings& given, const CostModel& work) {
  PlanSettings plain = given;
  plain.balance = {};
  // Presets do not support this order, and a comparison does not simulate the pipeline.
  if (given.micro_batch.order == MicroBatchOrder::schedule)
    plain.micro_batch.order = MicroBatchOrder::pipeline;
  plain.mini_batches.keep = true;
  plain.sharing = PrefixSharing::none;
  plain.max_path_tokens = std::nullopt;
  plain.schedule = SegmentSchedule::packed;
  plain.max_kept_tokens = std::nullopt;
  std::vector<Way> ways;
  const auto add = [&](std::string name, StrategySettings strategy, const CostModel& cost) {
    PlanSettings& settings = ways.emplace_back(std::move(name), plain).settings;
    settings.strategy = std::move(strategy);
    settings.balance.cost = cost;
    return &settings;
  };
  const CostModel tokens = CostModel::tokens();
  add("source order", PackedSettings{{BalanceAlgorithm::none}}, tokens);
  add("preset verl", ReferenceSettings{Preset::verl}, tokens)->micro_batch.shapes.reset();
  add("preset mindspeed-rl", ReferenceSettings{Preset::mindspeed_rl}, tokens)->micro_batch.shapes.reset();
  add("hierarchical, tokens", PackedSettings{}, tokens);
  add("hierarchical, work", PackedSettings{}, work);
  const auto* packed = given.find<PackedSettings>();
  if (packed != nullptr && packed->count == CountRule::fastest)
    add("hierarchical, fastest", PackedSettings{{}, std::nullopt, CountRule::fastest}, work);
  if (!given.balance.speeds.empty())
    add("hierarchical, speeds", PackedSettings{}, work)->balance.speeds = given.balance.speeds;
  add("grid, work", GridSettings{}, work);
  return ways;
}

ComparedPlan make_compared_plan(const LengthTable& table, const Way& way, const CostModel& work,
                                std::span<const std::int64_t> speeds) {
  const auto start = std::chrono::steady_clock::now();
  const StepProblem problem{table, way.settings};
  StepPlan plan = plan_step(problem);
  ComparedPlan compared;
  compared.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto shaped = shaped_plan(problem, plan)) compared.padding = shaped->padding_ratio();
  compared.name = way.name;
  compared.num_micro_batches = plan.num_micro_batches();
  for (DpRankPlan& rank : plan.ranks) {
    for (MicroBatchPlan& m : rank.micro_batches) {
      if (m.aligned_tokens > way.settings.micro_batch.max_tokens) ++compared.above_cap;
      m.cost = 0;
      for (const EntryId entry : m.entries) m.cost += work(table[entry].shape.length());
    }
  }
  compared.balance = step_balance(plan, speeds);
  compared.plan = std::move(plan);
  compared.settings = way.settings;
  compared.settings.balance.cost = work;
  compared.settings.balance.speeds.assign(speeds.begin(), speeds.end());
  return compared;
}

}  // namespace

CostModel comparison_cost_model(const PlanSettings& settings) {
  const CostModel& given = settings.balance.cost;
  return given == CostModel::tokens() ? CostModel::flops_7b() : given;
}

std::vector<ComparedPlan> compare_plans(const LengthTable& table, const PlanSettings& settings) {
  const CostModel work = comparison_cost_model(settings);
  std::vector<ComparedPlan> plans;
  for (const Way& way : ways_to_plan(settings, work))
    plans.push_back(make_compared_plan(table, way, work, settings.balance.speeds));
  return plans;
}

std::string comparison_table(std::span<const ComparedPlan> plans) {
  using enum TextTable::Align;
  const auto is_shaped = [](const ComparedPlan& plan) { return plan.padding.has_value(); };
  const bool any_shapes = std::ranges::any_of(plans, is_shaped);
  TextTable table({{"way"},
                   {"micro-\nbatches", right},
                   {"above\ncap", right},
                   {"DP max\n/ mean", right},
                   {"step max\n/ mean", right},
                   {"waiting\nonce", right},
                   {"waiting\nat each", right},
                   {any_shapes ? "padding\nto shapes" : "", right},
                   {"seconds", right}});
  for (const ComparedPlan& plan : plans) {
    const StepWaiting waiting = step_waiting(plan.balance);
    table.add({plan.name, format_with_commas(plan.num_micro_batches), format_with_commas(plan.above_cap),
               fmt::format("{:.4f}", plan.balance.dp_max_over_mean),
               fmt::format("{:.4f}", plan.balance.step_max_over_mean),
               fmt::format("{:.2f}%", 100 * waiting.once),
               fmt::format("{:.2f}%", 100 * waiting.every_micro_batch),
               plan.padding ? fmt::format("{:.2f}%", 100 * *plan.padding) : "",
               fmt::format("{:.4f}", plan.seconds)});
  }
  return table.to_text() +
         "waiting: the part of their time that DP ranks wait, if they meet once a step or at each "
         "micro-batch\n";
}

nlohmann::json comparison_json(std::span<const ComparedPlan> plans) {
  nlohmann::json array = nlohmann::json::array();
  for (const ComparedPlan& plan : plans) {
    const StepWaiting waiting = step_waiting(plan.balance);
    array.push_back({{"way", plan.name},
                     {"num_micro_batches", plan.num_micro_batches},
                     {"above_cap", plan.above_cap},
                     {"dp_max_over_mean", plan.balance.dp_max_over_mean},
                     {"step_max_over_mean", plan.balance.step_max_over_mean},
                     {"waiting_once", waiting.once},
                     {"waiting_every_micro_batch", waiting.every_micro_batch},
                     {"plan_seconds", plan.seconds}});
    if (plan.padding) array.back()["padding_to_shapes"] = *plan.padding;
  }
  return array;
}

}  // namespace evenkeel::cli
