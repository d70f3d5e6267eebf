#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "balance/quality.hpp"
#include "base/text_layout.hpp"
#include "cli/commands/commands.hpp"
#include "cli/option_values.hpp"
#include "cli/plan/cost_mismatch.hpp"
#include "cli/plan/plan_input.hpp"
#include "cli/plan/times_file.hpp"
#include "cost/cost_fit.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {
namespace {

struct FitOptions {
  std::filesystem::path times;
  std::filesystem::path lengths;
  std::vector<std::string> overrides;
};

/// A time model fitted to measured times, and its errors relative to these times.
struct FittedTimes {
  TimeModel times;
  MachineCost cost;
  double median_error = 0;  ///< median of the relative error over all measured times
  double largest_error = 0;
};

FittedTimes fit_times(const std::vector<TimedMicroBatch>& times, const std::string& path) {
  std::vector<CostObservation> observations;
  for (const TimedMicroBatch& timed : times) observations.push_back(timed.observation());
  const std::optional<TimeModel> model = fit_time_model(observations);
  if (!model)
    throw InputError(
        path, "a fit to its " + format_count(std::ssize(times), "time") + " did not give a usable cost",
        "Give the times of at least 16 micro-batches whose samples have different lengths, measured while "
        "nothing else ran");
  FittedTimes fit{*model, {cost_model_of(*model), overhead_cost_of(*model)}};
  std::vector<double> errors;
  for (const CostObservation& observed : observations)
    errors.push_back(std::abs((*model)(observed) / observed.seconds - 1));
  std::ranges::sort(errors);
  fit.median_error = errors[errors.size() / 2];
  fit.largest_error = errors.back();
  return fit;
}

/// Returns a table with the samples of all timed micro-batches, as one step.
LengthTable length_table_of(const std::vector<TimedMicroBatch>& times) {
  std::vector<LengthEntry> entries;
  for (const TimedMicroBatch& timed : times) {
    for (const std::int64_t length : timed.lengths) {
      const std::int64_t number = std::ssize(entries);
      LengthEntry& entry = entries.emplace_back();
      entry.shape = {SampleId{number}, static_cast<std::uint64_t>(number), 0, length};
      entry.owner_index = static_cast<std::int32_t>(number);
    }
  }
  return LengthTable(std::move(entries));
}

/// Returns plan settings whose cap admits every timed micro-batch, unless the user's overrides lower it.
PlanSettings plan_settings(const FitOptions& options, const std::vector<TimedMicroBatch>& times,
                           const LengthTable& table) {
  std::int64_t cap = 1;
  for (const TimedMicroBatch& timed : times) cap = std::max(cap, timed.observation().tokens);
  for (const std::int64_t length : table.sample_lengths()) cap = std::max(cap, length);
  std::vector<std::string> overrides{"mesh.dp=8", "balance.meet=step",
                                     "micro_batch.max_tokens=" + std::to_string(cap)};
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  const Config config = parse_config("", "the command line", overrides);
  const MeshSettings& mesh = config.mesh;
  const Grid grid{{mesh.tp, mesh.cp, mesh.dp.value_or(1), mesh.pp}, mesh.order};
  PlanSettings settings = config.plan_settings(grid.sizes(), {});
  if (strategy_of(settings).has_flexible_groups())
    throw ConfigError("mesh.cp",
                      "is flexible, which is not supported: the times do not show how many ranks a group had",
                      "Leave it out");
  return settings;
}

int fit(const FitOptions& options) {
  const std::vector<TimedMicroBatch> times = read_times(options.times);
  const FittedTimes fit = fit_times(times, options.times.string());
  std::cout << fmt::format(
      "{}: {:.3g} s per micro-batch, {:.3g} s per token, {:.3g} s per length^2\n"
      "balance.cost: {{linear: {}, quadratic: {}}}\n"
      "balance.overhead: {}\n"
      "error of a time: {:.2f} % in the median, {:.2f} % at most\n",
      format_count(std::ssize(times), "time"), fit.times.overhead, fit.times.linear, fit.times.quadratic,
      fit.cost.model.linear, fit.cost.model.quadratic, fit.cost.overhead, 100 * fit.median_error,
      100 * fit.largest_error);
  const LengthTable table = options.lengths.empty()
                                ? length_table_of(times)
                                : read_plan_input(options.lengths, PrefixSharing::none, {}, 0).table;
  const PlanSettings settings = plan_settings(options, times, table);
  std::cout << fmt::format("a step of {} on {}, cap {}, ends later if it is planned with\n",
                           format_count(table.size(), "sample"), format_count(settings.dp, "DP rank"),
                           format_count(settings.micro_batch.max_tokens, "token"));
  const auto show = [&](const std::string& name, const CostModel& assumed) {
    const double loss =
        cost_mismatch_slowdown({assumed, default_overhead(assumed)}, fit.cost, table, settings);
    std::cout << fmt::format("  balance.cost: {:<10} {:6.2f} %\n", name, 100 * loss);
  };
  show("tokens", CostModel::tokens());
  show("flops-7b", CostModel::flops_7b());
  return 0;
}

}  // namespace

void add_fit_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("fit", "Fit balance.cost to times of micro-batches");
  auto options = std::make_shared<FitOptions>();
  command
      ->add_option("TIMES", options->times,
                   "The times: .csv with the columns seconds, and length or lengths (separated by spaces)")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--lengths", options->lengths,
                   "The lengths of the step whose plans are compared; if not given, those in TIMES")
      ->type_name("FILE");
  command
      ->add_option(
          "--set", options->overrides,
          "Key of the configuration of these plans, such as mesh.dp=64; repeatable. Without it, there "
          "are 8 DP ranks that meet once a step, and the cap is the longest micro-batch in TIMES")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  evenkeel fit times.csv\n"
      "  evenkeel fit times.csv --lengths lengths.csv --set mesh.dp=64 --set micro_batch.max_tokens=32k");
  command->callback([options, &chosen] { chosen = [options] { return fit(*options); }; });
}

}  // namespace evenkeel::cli
