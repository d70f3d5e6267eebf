#include "cli/plan/plan_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/id_range.hpp"
#include "base/text_layout.hpp"
#include "page/pass_figures.hpp"
#include "plan/micro_batches/shape_choice.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/strategies/flexible_groups.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {
namespace {

/// A micro-batch, and the number of its wave, which is -1 if there are no waves.
struct NumberedMicroBatch {
  const MicroBatchPlan* micro_batch = nullptr;
  std::int64_t wave = -1;
};

/// Lists all micro-batches that are not empty, without duplicates. For each DP rank, also lists the indexes
/// of the micro-batches that the rank runs, in order.
class NumberedMicroBatches {
 public:
  NumberedMicroBatches(const StepPlan& plan, bool in_waves) {
    for (std::size_t r = 0; r < plan.ranks.size(); ++r)
      add(plan.ranks[r], DpRank{static_cast<int>(r)}, in_waves);
  }

  [[nodiscard]] const std::vector<NumberedMicroBatch>& all() const noexcept { return all_; }
  [[nodiscard]] const std::vector<std::vector<std::size_t>>& indices_by_rank() const noexcept {
    return indices_by_rank_;
  }

 private:
  using Group = std::pair<int, int>;

  void add(const DpRankPlan& rank, DpRank number, bool in_waves) {
    std::vector<std::size_t>& own = indices_by_rank_.emplace_back();
    std::map<Group, std::size_t> seen;
    for (std::size_t at = 0; at < rank.micro_batches.size(); ++at) {
      const MicroBatchPlan& m = rank.micro_batches[at];
      if (m.empty()) continue;
      const Group group{m.context.first.value(), m.context.size};
      std::vector<std::size_t>& of_group = indices_by_group_[group];
      if (m.is_led_by(number)) {
        of_group.push_back(all_.size());
        all_.push_back({&m, in_waves ? static_cast<std::int64_t>(at) : -1});
      }
      own.push_back(of_group[seen[group]++]);
    }
  }

  std::vector<NumberedMicroBatch> all_;
  std::map<Group, std::vector<std::size_t>> indices_by_group_;
  std::vector<std::vector<std::size_t>> indices_by_rank_;
};

nlohmann::json json_of(const LengthTable& table, const NumberedMicroBatch& numbered) {
  const MicroBatchPlan& m = *numbered.micro_batch;
  nlohmann::json samples = nlohmann::json::array();
  for (const EntryId entry : m.entries) samples.push_back(table[entry].shape.id.value());
  return {
      {"first_rank", m.context.first.value()}, {"size", m.context.size}, {"wave", numbered.wave},
      {"samples", std::move(samples)},         {"tokens", m.tokens},     {"aligned_tokens", m.aligned_tokens},
      {"mini_batch", m.mini_batch.value()},    {"time", m.cost}};
}

/// Totals over the micro-batches of all groups of one size.
struct SizeTotals {
  std::int64_t micro_batches = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  std::int64_t longest = 0;
};

std::map<int, SizeTotals> totals_by_size(const LengthTable& table, const NumberedMicroBatches& numbered) {
  std::map<int, SizeTotals> sizes;
  for (const NumberedMicroBatch& each : numbered.all()) {
    SizeTotals& of_size = sizes[each.micro_batch->context.size];
    ++of_size.micro_batches;
    of_size.samples += std::ssize(each.micro_batch->entries);
    of_size.tokens += each.micro_batch->tokens;
    for (const EntryId entry : each.micro_batch->entries)
      of_size.longest = std::max<std::int64_t>(of_size.longest, table[entry].shape.length());
  }
  return sizes;
}

}  // namespace

std::string pipeline_line(const StepPlan& plan, const PlanSettings& settings) {
  const auto step = simulate_step(plan, settings);
  if (!step) return "";
  const std::string stages =
      format_count(settings.pp, "stage") +
      (settings.vpp > 1 ? fmt::format(" of {} chunks", format_with_commas(settings.vpp)) : "");
  return fmt::format("simulated pipeline of {}: ends at {}, {:.2f} % bubble\n", stages,
                     format_with_commas(step->end), 100 * step->bubble);
}

void add_pipeline(nlohmann::json& json, const StepPlan& plan, const PlanSettings& settings) {
  const auto step = simulate_step(plan, settings);
  if (!step) return;
  json["pipeline"] = {
      {"stages", settings.pp}, {"chunks", settings.vpp}, {"end", step->end}, {"bubble", step->bubble}};
}

std::string sharing_line(const PackUnits& units) {
  if (!units.has_shared_prefixes()) return "";
  return "tokens repeated by splits: " + describe_repeated_tokens(units.repeated()) + "\n";
}

nlohmann::json sharing_json(const PackUnits& units) {
  return sharing_json(savings_of(units), units.repeated());
}

std::optional<ShapedPlan> shaped_plan(const StepProblem& problem, const StepPlan& plan) {
  const PlanSettings& settings = problem.settings;
  if (!settings.micro_batch.shapes) return std::nullopt;
  PassNeeds pass{&settings, {}};
  for (const DpRank rank : ids_below<DpRank>(static_cast<DpRank::value_type>(plan.ranks.size())))
    for (const MicroBatchPlan& m : plan.ranks[rank.index()].micro_batches)
      if (m.is_led_by(rank)) pass.needed.push_back(needed_shape(problem.table, m, settings));
  ShapedPlan shaped{initial_shapes(std::span(&settings, 1))};
  std::ranges::copy(shapes_to_add(std::span(&pass, 1), shaped.shapes), std::back_inserter(shaped.shapes));
  for (const PackedShape& needed : pass.needed) {
    const std::int64_t rows = smallest_fitting_shape(needed, shaped.shapes, settings).rows;
    shaped.rows += needed.rows * needed.cp;
    shaped.padding += (rows - needed.rows) * needed.cp;
  }
  return shaped;
}

std::string flexible_summary(const StepProblem& problem, const StepPlan& plan, double seconds) {
  using enum TextTable::Align;
  const PlanSettings& settings = problem.settings;
  const bool ranks_meet_at_micro_batches = strategy_of(settings).ranks_meet_at_micro_batches();
  const NumberedMicroBatches numbered(plan, ranks_meet_at_micro_batches);
  TextTable table({{"ranks of a group", right},
                   {"micro-batches", right},
                   {"samples", right},
                   {"tokens", right},
                   {"longest sample", right}});
  for (const auto& [size, of_size] : totals_by_size(problem.table, numbered))
    table.add({format_with_commas(size), format_with_commas(of_size.micro_batches),
               format_with_commas(of_size.samples), format_with_commas(of_size.tokens),
               format_with_commas(of_size.longest)});
  const Cost end = end_time_of(plan, ranks_meet_at_micro_batches);
  const Cost bound = flexible_lower_bound(problem);
  const std::string heading = fmt::format(
      "{}, {} on {}, which meet {}: {}, cap {} per rank, planned in {:.4f} s; the last rank ends {:.2f} % "
      "after the lower bound",
      format_count(problem.table.size(), "sample"), format_count(problem.table.num_tokens(), "token"),
      format_count(settings.dp, "DP rank"), ranks_meet_at_micro_batches ? "at every micro-batch" : "once",
      format_count(std::ssize(numbered.all()), "micro-batch", "micro-batches"),
      format_count(settings.micro_batch.max_tokens, "token"), seconds,
      bound == 0 ? 0.0 : 100 * (static_cast<double>(end) / static_cast<double>(bound) - 1));
  return heading + "\n" + table.to_text() + pipeline_line(plan, settings);
}

nlohmann::json flexible_json(const StepProblem& problem, const StepPlan& plan, double seconds) {
  const bool ranks_meet_at_micro_batches = strategy_of(problem.settings).ranks_meet_at_micro_batches();
  const NumberedMicroBatches numbered(plan, ranks_meet_at_micro_batches);
  nlohmann::json micro_batches = nlohmann::json::array();
  for (const NumberedMicroBatch& each : numbered.all()) micro_batches.push_back(json_of(problem.table, each));
  nlohmann::json json = {{"data_ranks", problem.settings.dp},
                         {"meet", ranks_meet_at_micro_batches ? "micro_batch" : "step"},
                         {"num_micro_batches", plan.num_micro_batches()},
                         {"micro_batches", std::move(micro_batches)},
                         {"ranks", numbered.indices_by_rank()},
                         {"end", end_time_of(plan, ranks_meet_at_micro_batches)},
                         {"lower_bound", flexible_lower_bound(problem)},
                         {"plan_seconds", seconds}};
  add_pipeline(json, plan, problem.settings);
  return json;
}

}  // namespace evenkeel::cli
