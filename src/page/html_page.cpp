#include "page/html_page.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "page/arrivals.hpp"
#include "page/template.hpp"

namespace evenkeel {
namespace {

/// Escapes text for use as the content of an HTML element.
std::string escape_html(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

/// Formats JSON for use inside <script>. Escapes "<", which occurs only inside JSON strings, because
/// "</script>" would end the element.
std::string escape_script_data(const nlohmann::json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

using nlohmann::json;

// Maximum number of data points in a chart, about one per pixel.
constexpr std::size_t max_places = 1024;

std::size_t group_size_for(std::size_t number) {
  return std::max<std::size_t>(1, (number + max_places - 1) / max_places);
}

enum class Merge : std::uint8_t { mean, most, first };

/// Returns one number per element of `things`. If there are more than max_places elements, combines each
/// group of adjacent elements into one number, using `merge`.
template <typename Thing, typename Figure>
json group_series(const std::vector<Thing>& things, Merge merge, const Figure& figure) {
  const std::size_t group = group_size_for(things.size());
  json numbers = json::array();
  for (std::size_t begin = 0; begin < things.size(); begin += group) {
    const std::size_t end = std::min(things.size(), begin + group);
    if (group == 1 || merge == Merge::first) {
      numbers.push_back(std::invoke(figure, things[begin]));
      continue;
    }
    double sum = 0;
    double most = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(std::invoke(figure, things[i]));
      sum += value;
      most = std::max(most, value);
    }
    numbers.push_back(merge == Merge::most ? most : sum / static_cast<double>(end - begin));
  }
  return numbers;
}

template <typename Thing, typename Seconds>
json phase_series_json(const std::vector<Thing>& things, Seconds seconds) {
  json phases = json::array();
  for (std::size_t p = 0; p < phase_names.size(); ++p)
    phases.push_back(
        group_series(things, Merge::mean, [&](const Thing& thing) { return (thing.*seconds)[p]; }));
  return phases;
}

json dp_json(const std::vector<DpRankTotals>& ranks) {
  const auto mean = [&](auto member) { return group_series(ranks, Merge::mean, member); };
  return {{"number", ranks.size()},
          {"group", group_size_for(ranks.size())},
          {"samples", mean(&DpRankTotals::samples)},
          {"tokens", mean(&DpRankTotals::tokens)},
          {"rows", mean(&DpRankTotals::rows)},
          {"cost", mean(&DpRankTotals::cost)},
          {"cost_before", mean(&DpRankTotals::cost_before)},
          {"tokens_before", mean(&DpRankTotals::tokens_before)},
          {"time", mean(&DpRankTotals::time)},
          {"waits_at_end", mean(&DpRankTotals::waits_at_end)},
          {"waits_at_each", mean(&DpRankTotals::waits_at_each)}};
}

json points_json(const std::vector<StepPoint>& points) {
  const auto mean = [&](auto member) { return group_series(points, Merge::mean, member); };
  const auto maximum = [&](auto member) { return group_series(points, Merge::most, member); };
  return {{"number", points.size()},
          {"group", group_size_for(points.size())},
          {"step", group_series(points, Merge::first, &StepPoint::step)},
          {"samples", mean(&StepPoint::samples)},
          {"tokens", mean(&StepPoint::tokens)},
          {"rows", mean(&StepPoint::rows)},
          {"padded_rows", mean(&StepPoint::padded_rows)},
          {"micro_batches", maximum(&StepPoint::micro_batches)},
          {"lower_bound", maximum(&StepPoint::lower_bound)},
          {"before", maximum(&StepPoint::max_over_mean_before)},
          {"dp", maximum(of_balance<&StepBalance::dp_max_over_mean>)},
          {"each", maximum(of_balance<&StepBalance::step_max_over_mean>)},
          {"seconds", phase_series_json(points, &StepPoint::seconds)},
          {"slowest", phase_series_json(points, &StepPoint::slowest)},
          {"waited", mean(&StepPoint::waited)},
          {"sent_bytes", mean(&StepPoint::sent_bytes)},
          {"peak_bytes", maximum(&StepPoint::peak_bytes)}};
}

json kept_step_json(const KeptStep& step) {
  json ranks = json::array();
  for (std::size_t r = 0; r < step.dp_ranks.size(); ++r) {
    const DpRankPicture& rank = step.dp_ranks[r];
    if (rank.micro_batches.empty()) continue;
    json micro_batches = json::array();
    for (const MicroBatchPicture& m : rank.micro_batches)
      micro_batches.push_back(
          {m.samples, m.tokens, m.rows, m.cost, m.longest, m.mini_batch, m.first_rank, m.ranks});
    ranks.push_back({{"rank", r}, {"speed", rank.speed}, {"micro_batches", std::move(micro_batches)}});
  }
  return {{"step", step.step},
          {"waiting", step.waiting},
          {"number", step.dp_ranks.size()},
          {"ranks", std::move(ranks)}};
}

json ranks_json(const std::vector<RankPicture>& ranks) {
  return {{"number", ranks.size()},
          {"group", group_size_for(ranks.size())},
          {"seconds", phase_series_json(ranks, &RankPicture::seconds)},
          {"waited", group_series(ranks, Merge::mean, &RankPicture::waited)},
          {"peak_bytes", group_series(ranks, Merge::most, &RankPicture::peak_bytes)},
          {"sent_bytes", group_series(ranks, Merge::mean, &RankPicture::sent_bytes)},
          {"kept_bytes", group_series(ranks, Merge::mean, &RankPicture::kept_bytes)}};
}

json totals_json(const RunPicture& run) {
  const PassFigures total = run.totals().total();
  json totals{{"steps", run.totals().passes()},
              {"longest_time", run.longest_time()},
              {"meeting_time", run.meeting_time()},
              {"mean_time", run.mean_time()}};
  for_each_figure([&](const auto& figure) {
    if (figure.page == nullptr) return;
    const auto& value = std::invoke(figure.of, total);
    if (figure.adds == Adds::as_mean) {
      totals[figure.page] = {{"mean", value}, {"worst", std::invoke(figure.of, run.totals().maximum())}};
    } else {
      totals[figure.page] = value;
    }
  });
  return totals;
}

json planning_json(const PlanningPicture& planning) {
  json reasons = json::array();
  for (const RepeatReason& reason : repeat_reasons) reasons.push_back(reason.words);
  return {{"cap", planning.cap},
          {"alignment", planning.alignment},
          {"cost", planning.cost},
          {"preset", planning.preset},
          {"pads", planning.pads_micro_batches},
          {"shares", planning.shares_prefixes},
          {"repeat_reasons", reasons}};
}

json profile_json(const RunPicture& run, const RunCircumstances& circumstances) {
  json advice = json::array();
  for (const Advice& a : advice_on(run, circumstances))
    advice.push_back({{"share", a.share}, {"what", a.what}, {"why", a.why}, {"action", a.action}});
  json kept = json::array();
  for (const KeptStep& step : run.kept_steps()) kept.push_back(kept_step_json(step));
  json links;
  if (run.links()) {
    links = {{"ranks", run.links()->ranks},
             {"per_line", run.links()->ranks_per_line},
             {"bytes", run.links()->bytes}};
  }
  return {{"name", run.profile()},
          {"planning", planning_json(run.planning())},
          {"totals", totals_json(run)},
          {"advice", std::move(advice)},
          {"lengths",
           {{"width", run.lengths().width()},
            {"samples", run.lengths().samples()},
            {"tokens", run.lengths().tokens()},
            {"shortest", run.lengths().shortest()},
            {"longest", run.lengths().longest()}}},
          {"dp", dp_json(run.dp_ranks())},
          {"points", points_json(run.points())},
          {"kept", std::move(kept)},
          {"ranks", ranks_json(run.ranks())},
          {"links", std::move(links)}};
}

/// Returns the page kind's identifier for the script, and its title for readers.
std::pair<const char*, const char*> describe_kind(PageSubject::Kind kind) {
  switch (kind) {
    case PageSubject::Kind::run:
      return {"run", "Report of a run"};
    case PageSubject::Kind::plan:
      return {"plan", "Plan of a step"};
    case PageSubject::Kind::comparison:
      break;
  }
  return {"comparison", "Ways to plan a step"};
}

}  // namespace

std::string html_page(const PageSubject& subject, std::span<const RunPicture> profiles) {
  const std::string date = subject.date.empty() ? "" : ", " + subject.date;
  const std::map<std::string_view, std::string> content{
      {"title", escape_html(title_of(subject) + date + " | Evenkeel")},
      {"style", std::string(page_style)},
      {"script", std::string(page_script)},
      {"data", escape_script_data(page_json(subject, profiles))},
      {"text", escape_html(subject.text)}};
  std::string page;
  std::string_view left = page_html;
  // Replace all placeholders in one pass, so that placeholders in inserted text are not replaced.
  for (std::size_t begin = left.find("{{"); begin != std::string_view::npos; begin = left.find("{{")) {
    const std::size_t end = left.find("}}", begin);
    page += left.substr(0, begin);
    page += content.at(left.substr(begin + 2, end - begin - 2));
    left.remove_prefix(end + 2);
  }
  return page += left;
}

std::string title_of(const PageSubject& subject) {
  const std::string title = describe_kind(subject.kind).second;
  return subject.name.empty() ? title : title + ": " + subject.name;
}

nlohmann::json page_json(const PageSubject& subject, std::span<const RunPicture> profiles) {
  json all = json::array();
  for (const RunPicture& run : profiles) all.push_back(profile_json(run, subject.circumstances));
  return {{"kind", describe_kind(subject.kind).first},
          {"title", title_of(subject)},
          {"sources", subject.sources},
          {"date", subject.date},
          {"version", subject.version},
          {"mesh", to_json(subject.mesh)},
          {"seconds", subject.circumstances.seconds},
          {"phases", phase_names},
          {"ways", subject.ways},
          {"conclusion", subject.conclusion},
          {"arrivals", arrivals_json(subject.arrivals)},
          {"profiles", std::move(all)}};
}

}  // namespace evenkeel
