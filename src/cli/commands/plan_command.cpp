#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "balance/quality.hpp"
#include "base/text_layout.hpp"
#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/option_values.hpp"
#include "cli/plan/arrivals.hpp"
#include "cli/plan/comparison.hpp"
#include "cli/plan/plan_figures.hpp"
#include "cli/plan/plan_input.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "io/files/output_file.hpp"
#include "page/html_page.hpp"
#include "page/step_picture.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/settings/field_costs.hpp"
#include "plan/strategies/automatic.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {
namespace {

/// Maximum value of --ranks, which is also that of mesh.dp.
constexpr std::int64_t max_ranks = std::int64_t{1} << 20;

struct PlanOptions {
  std::filesystem::path lengths;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string profile;
  int ranks = 0;
  std::filesystem::path json;
  std::filesystem::path html;
  bool compare = false;
  std::filesystem::path arrivals;
  std::int64_t group_size = 1;
  std::int64_t look_ahead = 2;
  std::optional<std::int64_t> max_staleness;
};

// Returns the grid to plan for. Without MPI, there is no world size that could determine `dp: auto`. If
// --ranks is not given either, warns and plans for dp 1.
Grid grid_of(const Config& config, int ranks) {
  if (ranks > 0) return config.grid(ranks);
  const MeshSettings& mesh = config.mesh;
  if (!mesh.dp) print_warning("mesh.dp is auto and --ranks is not given; planning for dp 1");
  return {{mesh.tp, mesh.cp, mesh.dp.value_or(1), mesh.pp}, mesh.order};
}

nlohmann::json json_of(const LengthTable& table, const MicroBatchPlan& micro_batch) {
  nlohmann::json samples = nlohmann::json::array();
  for (const EntryId entry : micro_batch.entries) samples.push_back(table[entry].shape.id.value());
  return {{"samples", std::move(samples)},
          {"tokens", micro_batch.tokens},
          {"aligned_tokens", micro_batch.aligned_tokens},
          {"padded_length", micro_batch.padded_length},
          {"mini_batch", micro_batch.mini_batch.value()},
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

/// Returns a lower bound on the cost of the costliest DP rank in any plan. If prefixes are shared, the bound
/// is the mean cost of the DP ranks in `plan`, so it holds only for plans with the same total cost.
Cost dp_cost_lower_bound(const LengthTable& table, const PlanSettings& settings, const StepPlan& plan) {
  if (settings.sharing == PrefixSharing::none)
    return max_sum_lower_bound(costs_of(table, settings), settings.dp);
  Cost sum = 0;
  for (const DpRankPlan& rank : plan.ranks) sum += rank.cost();
  return (sum + settings.dp - 1) / settings.dp;
}

nlohmann::json json_of(const LengthTable& table, const PlanSettings& settings, const StepPlan& plan,
                       double seconds) {
  const StepBalance balance = step_balance(plan, settings.balance.speeds);
  nlohmann::json json = {{"dp", settings.dp},
                         {"num_micro_batches", plan.num_micro_batches()},
                         {"lower_bound",
                          {{"num_micro_batches", micro_batch_lower_bound(plan)},
                           {"dp_max_cost", dp_cost_lower_bound(table, settings, plan)}}},
                         {"ranks", json_of(table, plan, settings.balance.speeds)},
                         {"balance",
                          {{"dp_max_over_mean", balance.dp_max_over_mean},
                           {"micro_batch_max_over_mean", balance.micro_batch_max_over_mean},
                           {"step_max_over_mean", balance.step_max_over_mean}}},
                         {"plan_seconds", seconds}};
  if (settings.balance.encoder) {
    const EncoderWork encoder = encoder_work_of(table, settings, plan);
    json["encoder"] = {{"dp_max_over_mean_before", max_over_mean(encoder.in_source_order)},
                       {"dp_max_over_mean", max_over_mean(encoder.assigned)}};
  }
  add_pipeline(json, plan, settings);
  return json;
}

/// Describes how many micro-batches DP ranks have: "3 micro-batches", or "2 to 3 micro-batches".
std::string describe_counts(const StepPlan& plan) {
  const auto size_of = [](const DpRankPlan& rank) { return std::ssize(rank.micro_batches); };
  const std::int64_t fewest = size_of(*std::ranges::min_element(plan.ranks, {}, size_of));
  const std::string most = format_count(plan.num_micro_batches(), "micro-batch", "micro-batches");
  return fewest < plan.num_micro_batches() ? std::to_string(fewest) + " to " + most : most;
}

std::string heading_text(const LengthTable& table, const PlanSettings& settings, const StepPlan& plan,
                         double seconds) {
  std::string text =
      fmt::format("{}, {} on {}: {} each (lower bound {}), cap {}, planned in {:.4f} s",
                  format_count(table.size(), "sample"), format_count(table.num_tokens(), "token"),
                  format_count(settings.dp, "DP rank"), describe_counts(plan), micro_batch_lower_bound(plan),
                  format_count(settings.micro_batch.max_tokens, "token"), seconds);
  if (settings.sharing == PrefixSharing::none) return text;
  std::int64_t once = 0;
  for (const DpRankPlan& rank : plan.ranks) once += rank.tokens();
  return text + fmt::format("; {} if shared prefixes count once", format_count(once, "token"));
}

/// Returns a line about micro-batches that exceed the cap, which the presets of other systems may produce.
/// Empty if there are none.
std::string broken_caps_text(const PlanSettings& settings, const StepPlan& plan, bool is_colored) {
  std::int64_t above = 0;
  for (const DpRankPlan& rank : plan.ranks)
    above += std::ranges::count_if(rank.micro_batches, [&](const MicroBatchPlan& m) {
      return m.aligned_tokens > settings.micro_batch.max_tokens;
    });
  if (above == 0) return "";
  return format_bold_red(format_count(above, "MICRO-BATCH", "MICRO-BATCHES") + " ABOVE THE CAP", is_colored) +
         "\n";
}

std::string shapes_line(const StepProblem& problem, const StepPlan& plan) {
  const std::optional<ShapedPlan> shaped = shaped_plan(problem, plan);
  if (!shaped) return "";
  return fmt::format("{} of {} chosen by such a first step: {} of padding, {:.2f} % of the rows\n",
                     format_count(std::ssize(shaped->shapes), "shape"), *problem.settings.micro_batch.shapes,
                     format_count(shaped->padding, "row"), 100 * shaped->padding_ratio());
}

nlohmann::json shapes_json(const StepProblem& problem, const StepPlan& plan) {
  const std::optional<ShapedPlan> shaped = shaped_plan(problem, plan);
  if (!shaped) return nullptr;
  nlohmann::json shapes = nlohmann::json::array();
  for (const PackedShape& shape : shaped->shapes)
    shapes.push_back({{"rows", shape.rows},
                      {"sequences", shape.sequences},
                      {"max_seqlen", shape.max_seqlen},
                      {"cp", shape.cp}});
  return {{"chosen", std::move(shapes)}, {"rows", shaped->rows}, {"padding", shaped->padding}};
}

std::string summary(const StepProblem& problem, const AssignedPlan& planned, double seconds,
                    bool is_colored) {
  const StepPlan& plan = planned.plan;
  const LengthTable& table = problem.table;
  const PlanSettings& settings = problem.settings;
  if (strategy_of(settings).has_flexible_groups())
    return flexible_summary(problem, plan, seconds) + sharing_line(planned.assignment.units);
  const std::vector<std::int64_t>& speeds = settings.balance.speeds;
  const StepBalance balance = step_balance(plan, speeds);
  const double before = max_over_mean(unbalanced_dp_costs(table, settings), speeds);
  const auto ratio = [](double value) { return fmt::format("{:.4f}", value); };
  TextTable ratios({{std::string(speeds.empty() ? "work" : "time") + ", max over mean (1 is even)"},
                    {"source order", TextTable::Align::right},
                    {"planned", TextTable::Align::right}});
  ratios.add({"DP ranks", ratio(before), ratio(balance.dp_max_over_mean)});
  if (settings.balance.encoder) {
    const EncoderWork encoder = encoder_work_of(table, settings, plan);
    ratios.add({"encoder, DP ranks", ratio(max_over_mean(encoder.in_source_order)),
                ratio(max_over_mean(encoder.assigned))});
  }
  ratios.add({"single micro-batches", "", ratio(balance.micro_batch_max_over_mean)});
  ratios.add({"ranks meeting at each micro-batch", "", ratio(balance.step_max_over_mean)});
  return heading_text(table, settings, plan, seconds) + "\n" + broken_caps_text(settings, plan, is_colored) +
         sharing_line(planned.assignment.units) + ratios.to_text() + shapes_line(problem, plan) +
         pipeline_line(plan, settings);
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  write_text_file(path, json.dump() + "\n");
}

/// Returns the subject of an HTML page about the lengths in options.lengths.
PageSubject subject_of(const PlanOptions& options, const GridPoint& mesh, const PlanSettings& settings) {
  PageSubject subject;
  subject.kind = PageSubject::Kind::plan;
  subject.version = EVENKEEL_VERSION;
  subject.mesh = {mesh, strategy_of(settings).has_flexible_groups()};
  subject.name = options.lengths.string();
  subject.date = current_time_text();
  return subject;
}

/// Returns an HTML page for a plan, in the format of a run's report.
std::string make_page(PageSubject subject, const PlanInput& input, const PlanSettings& settings,
                      const AssignedPlan& planned, double seconds) {
  RunPicture run;
  const StepProblem problem{input.table, settings, 0, input.trees};
  run.add(picture_of(problem, planned.plan, planned.assignment.units.repeated()));
  subject.text = summary(problem, planned, seconds, false);
  return html_page(subject, std::span(&run, 1));
}

/// Selects packed micro-batches, since a comparison needs plans that all compared systems can make.
void use_packed_mode(Config& config, const std::string& profile) {
  const auto found = config.profiles.find(profile);
  MicroBatchKeys& keys = found == config.profiles.end() ? config.micro_batch : found->second.micro_batch;
  if (std::exchange(keys.mode, MicroBatchMode::packed) != MicroBatchMode::packed)
    print_warning("micro_batch.mode is ignored: --compare plans packed micro-batches");
}

/// Rejects options that name the same file, since one would overwrite the other.
void require_distinct_files(const PlanOptions& options) {
  const std::array files{std::pair{"--lengths", options.lengths}, std::pair{"--arrivals", options.arrivals},
                         std::pair{"--json", options.json}, std::pair{"--html", options.html}};
  for (std::size_t later = 1; later < files.size(); ++later) {
    for (std::size_t i = 0; i < later; ++i) {
      const auto& [name, file] = files[later];
      if (file.empty() || file.lexically_normal() != files[i].second.lexically_normal()) continue;
      throw ConfigError(name, "names the same file as " + std::string(files[i].first),
                        "Give each option its own file");
    }
  }
}

/// Rejects --compare unless --ranks or mesh.dp is set. The default is a single DP rank, which never waits for
/// another one, so there would be nothing to compare.
void require_ranks_to_compare(const PlanOptions& options, const Config& config) {
  if (!options.compare || options.ranks > 0 || config.mesh.dp) return;
  throw ConfigError("--compare", "shows how DP ranks share the work, but their number is not specified",
                    "Give --ranks COUNT or --set mesh.dp=COUNT");
}

int compare(const PlanOptions& options, const PlanInput& input, const GridPoint& mesh, Config config) {
  use_packed_mode(config, options.profile);
  const PlanSettings settings = config.plan_settings(mesh, options.profile);
  const Comparison comparison(input, settings);
  std::cout << comparison.text();
  if (!options.json.empty()) write_json(options.json, comparison.json());
  if (!options.html.empty())
    write_text_file(options.html, comparison.html(subject_of(options, mesh, settings)));
  return 0;
}

/// Describes a choice: `grid, since ranks meet at every micro-batch; hierarchical would end 7.3 % later`.
std::string describe_choice(const StrategyChoice& choice, SyncPoint meet) {
  const bool is_grid = choice.is_grid();
  const auto chosen = static_cast<double>(is_grid ? choice.grid_end : choice.hierarchical_end);
  const auto other = static_cast<double>(is_grid ? choice.hierarchical_end : choice.grid_end);
  return fmt::format("{}, since ranks meet {}; {} would end {:.1f} % later",
                     is_grid ? "grid" : "hierarchical",
                     meet == SyncPoint::step ? "once a step" : "at every micro-batch",
                     is_grid ? "hierarchical" : "grid", chosen > 0 ? 100 * (other / chosen - 1) : 0.0);
}

/// With --compare or --arrivals, rejects costs and limits that depend on fields, since only lengths are
/// known.
void require_lengths_suffice(const PlanOptions& options, const PlanSettings& settings) {
  const bool lengths_alone = options.compare || !options.arrivals.empty();
  const std::string option = options.compare ? "--compare" : "--arrivals";
  if (lengths_alone && settings.balance.cost_field)
    throw ConfigError("balance.cost", "reads a field, but " + option + " only uses lengths",
                      "Set balance.cost to a cost of lengths");
  if (lengths_alone && !settings.micro_batch.max_rows.empty())
    throw ConfigError("micro_batch.max_rows", "limits rows of a field, but " + option + " only uses lengths",
                      "Set micro_batch.max_rows: null");
  if (lengths_alone && settings.balance.encoder)
    throw ConfigError("balance.cost",
                      "counts the work of an encoder by the rows of '" + settings.balance.encoder->field +
                          "', but " + option + " only uses lengths",
                      "Set balance.cost to the cost of the model alone");
}

/// Warns if a run may differ from this plan because plans depend on which rank reads which samples.
void warn_if_owners_matter(const PlanSettings& settings) {
  if (settings.dp > 1 && strategy_of(settings).depends_on_owners(settings)) {
    print_warning(
        "micro_batch.shuffle depends on how DP ranks are numbered, and with balance.placement: locality a "
        "run numbers them by the samples that they hold, so the run may shuffle differently from this plan. "
        "Set balance.placement: none for both to avoid this");
  }
}

/// Returns the number of groups in a step. Throws ConfigError if a step does not consist of whole groups.
std::int64_t num_groups_per_step(const Config& config, std::int64_t group_size) {
  const std::int64_t samples = config.batch.global_batch;
  if (samples % group_size == 0) return samples / group_size;
  throw ConfigError("--group-size",
                    "is " + std::to_string(group_size) + ", but batch.global_batch, " +
                        std::to_string(samples) + ", is not a multiple of " + std::to_string(group_size),
                    "Change one of the two, since steps consist of whole groups");
}

/// Replays recorded arrivals and forms steps from them: first come, first served and, unless --look-ahead is
/// 0, also with look-ahead. Prints a comparison of the results.
int plan_arrivals(const PlanOptions& options, const Config& config, const PlanSettings& settings) {
  if (options.compare || !options.html.empty() || !options.lengths.empty())
    throw ConfigError("--arrivals", "forms many steps, but --lengths, --compare and --html plan a single one",
                      "Leave these out; --json writes the steps");
  const std::int64_t groups = num_groups_per_step(config, options.group_size);
  const Arrivals arrivals = read_arrivals(options.arrivals);
  if (options.max_staleness && !arrivals.has_versions)
    throw InputError(options.arrivals.string(), "has no column or key 'version', which --max-staleness needs",
                     "Add it, or leave --max-staleness out");
  stream::StreamSettings ahead;
  ahead.group_size = options.group_size;
  ahead.max_staleness = options.max_staleness;
  std::vector<ArrivedSteps> ways{replay_arrivals(arrivals, ahead, groups, settings)};
  ahead.look_ahead = options.look_ahead;
  if (ahead.look_ahead > 0) ways.push_back(replay_arrivals(arrivals, ahead, groups, settings));
  std::cout << fmt::format(
                   "{} in steps of {} of {} on {}\n", format_count(std::ssize(arrivals.samples), "sample"),
                   format_count(groups, "group"), options.group_size, format_count(settings.dp, "DP rank"))
            << arrivals_table(ways);
  if (!options.json.empty()) write_json(options.json, arrivals_json(ways));
  return 0;
}

/// Returns the kind of prefix sharing for which to read the file. A comparison of sharing methods needs
/// everything that the file contains.
PrefixSharing select_sharing_to_read(const PlanOptions& options, const PlanSettings& settings) {
  const bool all = options.compare && settings.sharing != PrefixSharing::none;
  return all ? most_detailed_sharing(options.lengths, settings.sharing) : settings.sharing;
}

int plan_lengths(const PlanOptions& options) {
  require_distinct_files(options);
  std::vector<std::string> overrides = options.overrides;
  // A comparison uses both values of balance.meet, but some settings require that one of them is set.
  if (options.compare) overrides.insert(overrides.begin(), "balance.meet=step");
  const Config config = convert_load_errors([&] {
    return options.config.empty() ? parse_config("", "the command line", overrides)
                                  : load_config(options.config, overrides);
  });
  require_ranks_to_compare(options, config);
  const GridPoint mesh = grid_of(config, options.ranks).sizes();
  const PlanSettings configured = config.plan_settings(mesh, options.profile);
  require_lengths_suffice(options, configured);
  if (!options.arrivals.empty()) return plan_arrivals(options, config, configured);
  PlanInput input = read_plan_input(options.lengths, select_sharing_to_read(options, configured),
                                    config.fields, configured.predict_ahead);
  read_fields_of_plan(options.lengths, configured, input.table);
  if (options.compare) return compare(options, input, mesh, config);
  warn_if_owners_matter(configured);
  const auto start = std::chrono::steady_clock::now();
  const AssignedPlan planned = assign_and_plan({input.table, configured, 0, input.trees});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const StepPlan& plan = planned.plan;
  const PlanSettings settings = apply_strategy_choice(configured, planned.choice);
  const StepProblem problem{input.table, settings, 0, input.trees};
  if (const auto& choice = planned.choice)
    std::cout << "strategy: " << describe_choice(*choice, *settings.balance.meet) << '\n';
  std::cout << summary(problem, planned, seconds, is_colored(Stream::out));
  if (!options.json.empty()) {
    nlohmann::json json = strategy_of(settings).has_flexible_groups()
                              ? flexible_json(problem, plan, seconds)
                              : json_of(input.table, settings, plan, seconds);
    if (const auto& choice = planned.choice) {
      json["strategy"] = {{"chosen", choice->is_grid() ? "grid" : "hierarchical"},
                          {"hierarchical_end", choice->hierarchical_end},
                          {"grid_end", choice->grid_end}};
    }
    if (settings.sharing != PrefixSharing::none) json["sharing"] = sharing_json(planned.assignment.units);
    if (settings.micro_batch.shapes) json["shapes"] = shapes_json(problem, plan);
    write_json(options.json, json);
  }
  if (!options.html.empty()) {
    write_text_file(options.html,
                    make_page(subject_of(options, mesh, settings), input, settings, planned, seconds));
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& chosen) {
  auto* command =
      app.add_subcommand("plan", "Plan one step from a table of lengths, for any mesh, without MPI");
  auto options = std::make_shared<PlanOptions>();
  command
      ->add_option(
          "--lengths", options->lengths,
          "The lengths: .csv with the columns prompt_length and response_length, or length, or with one "
          "number per line; .jsonl; or an indexed dataset (.idx)")
      ->type_name("FILE");
  command->add_option("--config", options->config, "The job's configuration; all defaults if not given")
      ->type_name("FILE");
  command->add_option("--set", options->overrides, "Override a key of the file; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--profile", options->profile, "Plan with the settings of this profile")
      ->type_name("NAME");
  command->add_option("--ranks", options->ranks, "Total number of ranks to plan for, if mesh.dp is auto")
      ->type_name("COUNT")
      ->check(whole_number(1, max_ranks));
  command->add_option("--json", options->json, "Write the whole plan to this file")->type_name("FILE");
  command
      ->add_option(
          "--html", options->html,
          "Write the plan to this file as a page with charts: what each DP rank gets, and what to change; "
          "with --compare all plans, side by side")
      ->type_name("FILE");
  command->add_flag(
      "--compare", options->compare,
      "Plan in several ways, including those of other systems (and with prefix.share, in several ways of "
      "sharing), and show the plans side by side; --json writes them as an array, --html as charts");
  command
      ->add_option(
          "--arrivals", options->arrivals,
          "Instead of --lengths: a length table with the columns uid and, if need be, index, version and "
          "arrival; its samples are formed into steps as they arrive")
      ->type_name("FILE");
  command->add_option("--group-size", options->group_size, "With --arrivals: number of samples per group")
      ->type_name("COUNT")
      ->check(whole_number(1, max_in_group))
      ->capture_default_str();
  command
      ->add_option("--look-ahead", options->look_ahead,
                   "With --arrivals: steps to look ahead, compared with first come, first served")
      ->type_name("STEPS")
      ->check(whole_number(0, max_ahead))
      ->capture_default_str();
  command
      ->add_option("--max-staleness", options->max_staleness,
                   "With --arrivals: drop samples that are more than this many versions behind; each step "
                   "makes a version")
      ->type_name("VERSIONS")
      ->check(whole_number(0, std::int64_t{1} << 30));
  command->footer(
      "The whole table is one step. A .jsonl file of rollouts is a table, too; prefix.share needs one, "
      "unless the table has uids and prompt lengths.\n"
      "\n"
      "Examples:\n"
      "  evenkeel plan --lengths lengths.csv --set mesh.dp=64 --set micro_batch.max_tokens=32k\n"
      "  evenkeel plan --lengths rollouts.jsonl --config job.yaml --ranks 64 --json plan.json\n"
      "  evenkeel plan --lengths lengths.csv --set mesh.dp=8 --html plan.html\n"
      "  evenkeel plan --lengths lengths.csv --set mesh.dp=8 --compare --html ways.html\n"
      "  evenkeel plan --arrivals rollouts.jsonl --group-size 8 --set mesh.dp=8");
  command->callback([options, &chosen] {
    if (options->lengths.empty() && options->arrivals.empty())
      throw CLI::ValidationError("plan needs --lengths or --arrivals. See: evenkeel plan --help");
    chosen = [options] { return plan_lengths(*options); };
  });
}

}  // namespace evenkeel::cli
