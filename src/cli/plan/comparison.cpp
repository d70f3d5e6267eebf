#include "cli/plan/comparison.hpp"

#include <fmt/format.h>

#include "base/text_layout.hpp"
#include "page/step_picture.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {

Comparison::Comparison(const PlanInput& input, const PlanSettings& settings)
    : table_(input.table), settings_(settings) {
  settings_.balance.cost = compared_work(settings);
  if (!strategy_of(settings).has_own_groups()) plans_ = compare_plans(table_, settings);
  contexts_ = compare_contexts(table_, settings);
  sharing_ = compare_sharing(input, settings);
}

std::string Comparison::text() const {
  std::string text = fmt::format("{}, {} on {}, cap {}{}; work is {}\n", counted(table_.size(), "sample"),
                                 counted(table_.num_tokens(), "token"), counted(settings_.dp, "DP rank"),
                                 counted(settings_.micro_batch.max_tokens, "token"),
                                 plans_.empty() ? " a rank" : "", picture_of(settings_).cost);
  if (!plans_.empty()) text += comparison_table(plans_) + "\n";
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
