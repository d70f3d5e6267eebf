#include "cli/plan/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_layout.hpp"
#include "cli/plan/cost_mismatch.hpp"
#include "page/step_picture.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {

namespace {

/// Returns the maximum relative delay of the step's end if the actual cost of attention is 20 % higher or
/// lower than in `settings`. The maximum is over both values of balance.meet.
double max_attention_mismatch_slowdown(const LengthTable& table, PlanSettings settings) {
  const CostModel said = settings.balance.cost;
  const Cost overhead = settings.communication_cost().overhead;
  double most = 0;
  for (const SyncPoint meet : {SyncPoint::step, SyncPoint::micro_batch}) {
    settings.balance.meet = meet;
    // The quadratic term is 6/5 or 4/5 of its assumed value, relative to the linear term.
    for (const std::int64_t part : {6, 4}) {
      const auto relative = [part](Cost cost) { return cost / part * 5 + cost % part * 5 / part; };
      const CostModel actual{relative(said.linear), said.quadratic, said.window};
      most = std::max(
          most, cost_mismatch_slowdown({said, overhead}, {actual, relative(overhead)}, table, settings));
    }
  }
  return most;
}

}  // namespace

Comparison::Comparison(const PlanInput& input, const PlanSettings& settings)
    : table_(input.table), settings_(settings) {
  settings_.balance.cost = comparison_cost_model(settings);
  if (!strategy_of(settings).has_flexible_groups()) {
    plans_ = compare_plans(table_, settings);
    PlanSettings automatic = plans_.back().settings;
    automatic.strategy = PackedSettings{};
    automatic.balance.overhead = settings.balance.overhead;
    max_attention_mismatch_slowdown_ = max_attention_mismatch_slowdown(table_, automatic);
  }
  contexts_ = compare_contexts(table_, settings);
  sharing_ = compare_sharing(input, settings);
}

std::string Comparison::text() const {
  std::string text =
      fmt::format("{}, {} on {}, at most {} per {}; cost = {}\n", format_count(table_.size(), "sample"),
                  format_count(table_.num_tokens(), "token"), format_count(settings_.dp, "DP rank"),
                  format_count(settings_.micro_batch.max_tokens, "token"),
                  plans_.empty() ? "rank and micro-batch" : "micro-batch", picture_of(settings_).cost);
  if (!plans_.empty()) {
    text += comparison_table(plans_);
    text += fmt::format(
        "if attention takes 20 % more or less than balance.cost says, a step ends at most {:.2f} % later "
        "than with "
        "the right cost\n\n",
        100 * max_attention_mismatch_slowdown_);
  }
  if (contexts_) text += context_table(*contexts_);
  if (!sharing_.empty()) text += "\n" + sharing_table(sharing_);
  return text;
}

nlohmann::json Comparison::json() const {
  nlohmann::json ways = comparison_json(plans_);
  const auto add = [&](nlohmann::json more) {
    for (nlohmann::json& way : more) ways.push_back(std::move(way));
  };
  if (contexts_) add(context_json(*contexts_));
  add(sharing_ways_json(sharing_));
  return ways;
}

std::string Comparison::html(PageSubject subject) const {
  subject.kind = PageSubject::Kind::comparison;
  subject.text = text();
  subject.ways = json();
  if (contexts_) subject.conclusion = contexts_->advice;
  std::vector<RunPicture> runs;
  for (const ComparedPlan& way : plans_) {
    StepPicture picture = picture_of({table_, way.settings}, way.plan, {});
    picture.profile = way.name;
    runs.emplace_back().add(picture);
  }
  return html_page(subject, runs);
}

}  // namespace evenkeel::cli
