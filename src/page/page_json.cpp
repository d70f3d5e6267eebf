#include <algorithm>
#include <nlohmann/json.hpp>

#include "page/html_page.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;

// A chart has no more places than a line of pixels.
constexpr std::size_t most_places = 1024;

std::size_t neighbours_of(std::size_t number) {
  return std::max<std::size_t>(1, (number + most_places - 1) / most_places);
}

enum class Merge : std::uint8_t { mean, most, first };

/// One number of each of `things`; where there are more than a chart has places, one for a few neighbours.
template <typename Thing, typename Figure>
json series(const std::vector<Thing>& things, Merge merge, const Figure& figure) {
  const std::size_t group = neighbours_of(things.size());
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

template <typename Thing>
json phases_of(const std::vector<Thing>& things, PhaseTimes Thing::*seconds) {
  json phases = json::array();
  for (std::size_t p = 0; p < phase_names.size(); ++p)
    phases.push_back(series(things, Merge::mean, [&](const Thing& thing) { return (thing.*seconds)[p]; }));
  return phases;
}

json dp_json(const std::vector<DpRankTotals>& ranks) {
  const auto of = [&](auto member) { return series(ranks, Merge::mean, member); };
  return {{"number", ranks.size()},
          {"group", neighbours_of(ranks.size())},
          {"samples", of(&DpRankTotals::samples)},
          {"tokens", of(&DpRankTotals::tokens)},
          {"rows", of(&DpRankTotals::rows)},
          {"cost", of(&DpRankTotals::cost)},
          {"cost_before", of(&DpRankTotals::cost_before)},
          {"tokens_before", of(&DpRankTotals::tokens_before)},
          {"time", of(&DpRankTotals::time)},
          {"waits_at_end", of(&DpRankTotals::waits_at_end)},
          {"waits_at_each", of(&DpRankTotals::waits_at_each)}};
}

json points_json(const std::vector<StepPoint>& points) {
  const auto mean = [&](auto member) { return series(points, Merge::mean, member); };
  const auto most = [&](auto member) { return series(points, Merge::most, member); };
  return {{"number", points.size()},
          {"group", neighbours_of(points.size())},
          {"step", series(points, Merge::first, &StepPoint::step)},
          {"samples", mean(&StepPoint::samples)},
          {"tokens", mean(&StepPoint::tokens)},
          {"rows", mean(&StepPoint::rows)},
          {"padded_rows", mean(&StepPoint::padded_rows)},
          {"micro_batches", most(&StepPoint::micro_batches)},
          {"lower_bound", most(&StepPoint::lower_bound)},
          {"before", most(&StepPoint::before)},
          {"dp", most(&StepPoint::dp)},
          {"each", most(&StepPoint::each)},
          {"seconds", phases_of(points, &StepPoint::seconds)},
          {"slowest", phases_of(points, &StepPoint::slowest)},
          {"waited", mean(&StepPoint::waited)},
          {"sent_bytes", mean(&StepPoint::sent_bytes)},
          {"peak_bytes", most(&StepPoint::peak_bytes)}};
}

json kept_json(const KeptStep& step) {
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
          {"group", neighbours_of(ranks.size())},
          {"seconds", phases_of(ranks, &RankPicture::seconds)},
          {"waited", series(ranks, Merge::mean, &RankPicture::waited)},
          {"peak_bytes", series(ranks, Merge::most, &RankPicture::peak_bytes)},
          {"sent_bytes", series(ranks, Merge::mean, &RankPicture::sent_bytes)},
          {"kept_bytes", series(ranks, Merge::mean, &RankPicture::kept_bytes)}};
}

json totals_json(const RunPicture& run) {
  StepPoint sum;
  StepPoint worst;
  sum.before = sum.dp = sum.micro_batch = sum.each = 0;
  for (const StepPoint& p : run.points()) {
    sum.samples += p.samples;
    sum.tokens += p.tokens;
    sum.filled += p.filled;
    sum.rows += p.rows;
    sum.padded_rows += p.padded_rows;
    sum.micro_batches += p.micro_batches;
    sum.lower_bound += p.lower_bound;
    sum.empty += p.empty;
    sum.waited += p.waited;
    sum.peak_bytes = std::max(sum.peak_bytes, p.peak_bytes);
    for (std::size_t i = 0; i < phase_names.size(); ++i) sum.seconds[i] += p.seconds[i];
    for (auto ratio : {&StepPoint::before, &StepPoint::dp, &StepPoint::micro_batch, &StepPoint::each}) {
      sum.*ratio += p.*ratio / static_cast<double>(run.points().size());
      worst.*ratio = std::max(worst.*ratio, p.*ratio);
    }
  }
  const auto ratio = [&](double StepPoint::*of) { return json{{"mean", sum.*of}, {"worst", worst.*of}}; };
  return {{"steps", run.points().size()},
          {"samples", sum.samples},
          {"tokens", sum.tokens},
          {"filled", sum.filled},
          {"rows", sum.rows},
          {"padded_rows", sum.padded_rows},
          {"unshared_rows", run.unshared_rows()},
          {"micro_batches", sum.micro_batches},
          {"lower_bound", sum.lower_bound},
          {"empty", sum.empty},
          {"above_cap", run.above_cap()},
          {"widest", run.widest()},
          {"before", ratio(&StepPoint::before)},
          {"dp", ratio(&StepPoint::dp)},
          {"micro_batch", ratio(&StepPoint::micro_batch)},
          {"each", ratio(&StepPoint::each)},
          {"longest_time", run.longest_time()},
          {"meeting_time", run.meeting_time()},
          {"mean_time", run.mean_time()},
          {"seconds", sum.seconds},
          {"waited", sum.waited},
          {"peak_bytes", sum.peak_bytes},
          {"sent_bytes", run.bytes().sent},
          {"node_bytes", run.bytes().between_nodes},
          {"kept_bytes", run.bytes().kept},
          {"copied_bytes", run.bytes().copied}};
}

json planning_json(const PlanningPicture& planning) {
  return {{"cap", planning.cap},
          {"alignment", planning.alignment},
          {"cost", planning.cost},
          {"preset", planning.preset},
          {"pads", planning.pads_micro_batches},
          {"shares", planning.shares_prefixes}};
}

json profile_json(const RunPicture& run, const RunCircumstances& circumstances) {
  json advice = json::array();
  for (const Advice& a : advice_on(run, circumstances))
    advice.push_back({{"share", a.share}, {"what", a.what}, {"why", a.why}, {"then", a.then}});
  json kept = json::array();
  for (const KeptStep& step : run.kept_steps()) kept.push_back(kept_json(step));
  json links;
  if (run.links()) {
    links = {{"ranks", run.links()->ranks},
             {"data_ranks", run.links()->data_ranks},
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

}  // namespace

nlohmann::json page_json(const PageSubject& subject, std::span<const RunPicture> profiles) {
  json all = json::array();
  for (const RunPicture& run : profiles) all.push_back(profile_json(run, subject.circumstances));
  return {{"kind", subject.kind == PageSubject::Kind::run ? "run" : "plan"},
          {"version", subject.version},
          {"mesh", to_json(subject.mesh)},
          {"seconds", subject.circumstances.seconds},
          {"phases", phase_names},
          {"profiles", std::move(all)}};
}

}  // namespace evenkeel
