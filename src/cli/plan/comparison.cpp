#include "cli/plan/comparison.hpp"

#include <fmt/format.h>

#include "page/plan_picture.hpp"

namespace evenkeel::cli {

Comparison::Comparison(const LengthTable& table, const PlanSettings& settings)
    : table_(table), settings_(settings) {
  settings_.balance.cost = compared_work(settings);
  if (!settings.flexible) plans_ = compare_plans(table, settings);
  contexts_ = compare_contexts(table, settings);
}

std::string Comparison::text(const TextStyle& style) const {
  std::string text =
      indented(fmt::format("{}, {} on {}, cap {}{}; work is {}", counted(table_.size(), "sample"),
                           counted(table_.num_tokens(), "token"), counted(settings_.dp, "DP rank"),
                           counted(settings_.micro_batch.max_tokens, "token"),
                           plans_.empty() ? " a rank" : "", picture_of(settings_).cost),
               0, style.width);
  if (!plans_.empty()) text += comparison_table(plans_, style) + "\n";
  if (contexts_) text += context_table(*contexts_, style);
  return text;
}

nlohmann::json Comparison::json() const {
  nlohmann::json ways = comparison_json(plans_);
  if (!contexts_) return ways;
  for (nlohmann::json& way : context_json(*contexts_)) ways.push_back(std::move(way));
  return ways;
}

std::string Comparison::html(PageSubject subject) const {
  subject.kind = PageSubject::Kind::comparison;
  subject.text = text({});
  subject.ways = json();
  if (contexts_) subject.conclusion = contexts_->advice;
  std::vector<RunPicture> runs;
  for (const ComparedPlan& way : plans_) {
    StepPicture picture = picture_of({table_, way.settings}, way.plan);
    picture.profile = way.name;
    runs.emplace_back().add(picture);
  }
  return html_page(subject, runs);
}

}  // namespace evenkeel::cli
