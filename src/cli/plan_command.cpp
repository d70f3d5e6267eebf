#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/plan_comparison.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/io/atomic_file.hpp"
#include "evenkeel/io/length_table.hpp"
#include "evenkeel/plan/dp_assignment.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "evenkeel/service/config_file.hpp"

namespace evenkeel::cli {
namespace {

struct PlanOptions {
  std::filesystem::path lengths;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string profile;
  int ranks = 0;
  std::filesystem::path json;
  bool compare = false;
};

LengthTable table_of(const std::vector<LengthRow>& rows) {
  std::vector<LengthEntry> entries;
  entries.reserve(rows.size());
  for (const LengthRow& row : rows) {
    const auto line = static_cast<std::int64_t>(entries.size());
    entries.push_back({{SampleId{line}, row.group, row.prompt, row.response},
                       WorldRank{0},
                       static_cast<std::int32_t>(line)});
  }
  return LengthTable(std::move(entries));
}

// Without MPI there is no world for `dp: auto` to take the rest of, unless the user says how large it would
// be.
Grid grid_of(const Config& config, int ranks) {
  if (ranks > 0) return config.grid(ranks);
  const MeshConfig& mesh = config.mesh;
  if (!mesh.dp) std::cerr << "evenkeel: mesh.dp is auto and --ranks is not given; planning for dp 1\n";
  return {{mesh.tp, mesh.cp, mesh.dp.value_or(1), mesh.pp}, mesh.order};
}

nlohmann::json json_of(const LengthTable& table, const MicroBatchPlan& micro_batch) {
  nlohmann::json samples = nlohmann::json::array();
  for (const std::int64_t entry : micro_batch.entries) samples.push_back(table[entry].shape.id.value());
  return {{"samples", std::move(samples)},
          {"tokens", micro_batch.tokens},
          {"aligned_tokens", micro_batch.aligned_tokens},
          {"padded_length", micro_batch.padded_length},
          {"mini_batch", micro_batch.mini_batch},
          {"cost", micro_batch.cost}};
}

nlohmann::json json_of(const LengthTable& table, const StepPlan& plan, std::span<const std::int64_t> speeds) {
  nlohmann::json ranks = nlohmann::json::array();
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    nlohmann::json micro_batches = nlohmann::json::array();
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches) micro_batches.push_back(json_of(table, m));
    ranks.push_back({{"dp_rank", r},
                     {"cost", plan.ranks[r].cost()},
                     {"tokens", plan.ranks[r].tokens()},
                     {"micro_batches", std::move(micro_batches)}});
    if (!speeds.empty()) ranks.back()["speed"] = static_cast<double>(speeds[r]) / 1000;
  }
  return ranks;
}

std::int64_t micro_batch_lower_bound(const StepPlan& plan) {
  std::int64_t bound = 0;
  for (const DpRankPlan& rank : plan.ranks) bound = std::max(bound, rank.lower_bound);
  return bound;
}

nlohmann::json json_of(const LengthTable& table, const PlanSettings& settings, const StepPlan& plan,
                       double seconds) {
  const StepBalance balance = step_balance(plan, settings.balance.speeds);
  return {{"dp", settings.dp},
          {"num_micro_batches", plan.num_micro_batches},
          {"lower_bound",
           {{"num_micro_batches", micro_batch_lower_bound(plan)},
            {"dp_max_cost", max_sum_lower_bound(costs_of(table, settings), settings.dp)}}},
          {"ranks", json_of(table, plan, settings.balance.speeds)},
          {"balance",
           {{"dp_max_over_mean", balance.dp_max_over_mean},
            {"micro_batch_max_over_mean", balance.micro_batch_max_over_mean},
            {"step_max_over_mean", balance.step_max_over_mean}}},
          {"plan_seconds", seconds}};
}

std::string summary(const LengthTable& table, const PlanSettings& settings, const StepPlan& plan,
                    double seconds) {
  const std::vector<std::int64_t>& speeds = settings.balance.speeds;
  const StepBalance balance = step_balance(plan, speeds);
  const double before = max_over_mean(unbalanced_dp_costs(table, settings), speeds);
  return fmt::format(
      "{} samples, {} tokens on {} DP ranks: {} micro-batches each (lower bound {}), cap {} tokens, planned "
      "in {:.4f} s\n"
      "  {}, max over mean      source order  planned\n"
      "  DP ranks                 {:<12.4f}  {:.4f}\n"
      "  single micro-batches                   {:.4f}\n"
      "  ranks meeting at each                  {:.4f}\n",
      table.size(), table.num_tokens(), settings.dp, plan.num_micro_batches, micro_batch_lower_bound(plan),
      settings.micro_batch.max_tokens, seconds, speeds.empty() ? "work" : "time", before,
      balance.dp_max_over_mean, balance.micro_batch_max_over_mean, balance.step_max_over_mean);
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  const std::string text = json.dump() + "\n";
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

int plan_lengths(const PlanOptions& options) {
  const Config config = options.config.empty() ? parse_config("", "defaults", options.overrides)
                                               : load_config(options.config, options.overrides);
  const PlanSettings settings = config.plan_settings(grid_of(config, options.ranks).sizes(), options.profile);
  const LengthTable table = table_of(read_length_table(InputFile(options.lengths)));
  if (table.size() == 0) throw InputError(options.lengths.string(), "has no samples");
  if (options.compare) {
    const std::vector<ComparedPlan> plans = compare_plans(table, settings);
    std::cout << comparison_table(plans);
    if (!options.json.empty()) write_json(options.json, comparison_json(plans));
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  const StepPlan plan = plan_step(table, settings);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << summary(table, settings, plan, seconds);
  if (!options.json.empty()) write_json(options.json, json_of(table, settings, plan, seconds));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("plan", "Plan one step from a length table, for any mesh, without MPI");
  auto options = std::make_shared<PlanOptions>();
  command
      ->add_option("--lengths", options->lengths,
                   "Length table: .csv with prompt_length,response_length (or length), or .jsonl")
      ->required();
  command->add_option("--config", options->config, "The job's configuration; the defaults when left out");
  command->add_option("--set", options->overrides, "KEY=VALUE that overrides the file; repeatable")
      ->allow_extra_args(false);
  command->add_option("--profile", options->profile, "Plan with the settings of this profile");
  command->add_option("--ranks", options->ranks, "Ranks of the world to plan for, when mesh.dp is auto")
      ->check(CLI::PositiveNumber);
  command->add_option("--json", options->json, "Write the whole plan to this file");
  command->add_flag("--compare", options->compare,
                    "Plan in several ways, those of other systems among them, and show them side by side; "
                    "--json writes the same as an array");
  command->footer(
      "The whole table is one step. Example:\n"
      "  evenkeel plan --lengths lengths.csv --set mesh.dp=64 --set micro_batch.max_tokens=32768");
  command->callback([options, &chosen] { chosen = [options] { return plan_lengths(*options); }; });
}

}  // namespace evenkeel::cli
