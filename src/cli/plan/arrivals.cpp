#include "cli/plan/arrivals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/samples/lengths_file.hpp"
#include "stream/event.hpp"
#include "stream/former.hpp"
#include "stream/ledger.hpp"
#include "stream/step_cost_estimate.hpp"

namespace evenkeel::cli {
namespace {

using namespace stream;

/// Returns row numbers in ascending order of `arrival`, or in file order if `arrival` is empty.
std::vector<std::size_t> rows_by_arrival(std::size_t rows, const std::vector<std::int64_t>& arrival) {
  std::vector<std::size_t> order(rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!arrival.empty()) std::ranges::stable_sort(order, {}, [&](std::size_t row) { return arrival[row]; });
  return order;
}

/// Replays arrivals with a ledger and a simulated trainer, which trains each step as soon as it is formed.
class Replay {
 public:
  Replay(const StreamSettings& settings, std::int64_t groups_of_step, const PlanSettings& plan)
      : groups_of_step_(groups_of_step), plan_(plan), ledger_(settings) {}

  void add_sample(const SampleAccepted& sample) {
    const std::int64_t group_size = ledger_.settings().group_size;
    if (sample.key.index >= group_size)
      throw InputError(
          "group " + to_text(sample.key.uid),
          "has a sample with index " + std::to_string(sample.key.index) + ", but groups of " +
              std::to_string(group_size) + " end at index " + std::to_string(group_size - 1),
          "Set --group-size to the size of the largest group; indexes, if the table has them, begin "
          "at 0");
    if (ledger_.is_known(sample.key)) return apply(DuplicatesReported{1});
    if (const std::string why = ledger_.rejection_reason(sample); !why.empty())
      throw InputError("sample " + std::to_string(sample.key.index) + " of group " + to_text(sample.key.uid),
                       why);
    apply(sample);
    const std::int64_t window = (1 + ledger_.settings().look_ahead) * groups_of_step_;
    while (ledger_.status().ready_groups >= window && form_next_step()) {
    }
  }
  [[nodiscard]] ArrivedSteps finish() {
    apply(StreamEnded{});
    while (form_next_step()) {
    }
    const Status status = ledger_.status();
    steps_.look_ahead = ledger_.settings().look_ahead;
    steps_.duplicates = status.duplicates;
    for (const Amount& dropped : status.dropped) steps_.dropped += dropped.samples;
    if (!trained_.empty()) steps_.at_once = planned_time(trained_, plan_);
    return std::move(steps_);
  }

 private:
  void apply(Event::What what) {
    ledger_.apply({++number_, std::move(what)});
    for (SamplesDropped& drop : ledger_.due_drops()) ledger_.apply({++number_, std::move(drop)});
  }

  bool form_next_step() {
    const std::vector<WaitingGroup> ready = ledger_.ready();
    const std::vector<std::int64_t> coming = ledger_.versions_of_expected_groups();
    const auto formed = form_step({ready, coming, step_, ledger_.version(), groups_of_step_,
                                   ledger_.status().ended, ledger_.settings(), plan_});
    if (!formed) return false;
    apply(*formed);
    std::vector<WaitingGroup> groups = ledger_.untrained_steps(step_).front().groups;
    ArrivedStep& step = steps_.steps.emplace_back();
    for (const WaitingGroup& group : groups) {
      step.groups.push_back(group.uid);
      step.samples += std::ssize(group.samples);
      for (const WaitingSample& sample : group.samples) step.tokens += sample.prompt + sample.response;
      step.staleness = std::max(step.staleness, formed->version - group.version());
    }
    step.time = planned_time(groups, plan_);
    std::ranges::move(groups, std::back_inserter(trained_));
    apply(StepTrained{step_});
    apply(VersionPublished{++step_});
    return true;
  }

  std::int64_t groups_of_step_;
  const PlanSettings& plan_;
  Ledger ledger_;
  std::int64_t number_ = 0;
  std::int64_t step_ = 0;
  std::vector<WaitingGroup> trained_;
  ArrivedSteps steps_;
};

std::int64_t max_staleness_of_steps(const ArrivedSteps& way) {
  std::int64_t most = 0;
  for (const ArrivedStep& step : way.steps) most = std::max(most, step.staleness);
  return most;
}

double ratio(double time, double to) {
  return to == 0 ? 1 : time / to;
}

}  // namespace

Arrivals read_arrivals(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::vector<FileLengths> rows = read_length_table(file);
  if (rows.empty()) throw InputError(path.string(), "has no samples", "Give at least one");
  const std::vector<Uid> uids = read_uids_of_table(file);
  const std::vector<std::int64_t> indexes = read_integers_of_table(file, "index");
  const std::vector<std::int64_t> versions = read_integers_of_table(file, "version");
  std::map<Uid, std::int64_t> counts;
  Arrivals arrivals{{}, !versions.empty()};
  for (const std::size_t row : rows_by_arrival(rows.size(), read_integers_of_table(file, "arrival"))) {
    if (std::holds_alternative<std::monostate>(uids[row]))
      throw InputError(path.string(), "has no uid for sample " + std::to_string(row),
                       "Give every sample a uid, which names its group");
    const std::int64_t index = indexes.empty() ? counts[uids[row]]++ : indexes[row];
    arrivals.samples.push_back(
        {{uids[row], index}, rows[row].prompt, rows[row].response, versions.empty() ? 0 : versions[row], 0});
  }
  return arrivals;
}

double ArrivedSteps::time() const noexcept {
  double sum = 0;
  for (const ArrivedStep& step : steps) sum += step.time;
  return sum;
}

ArrivedSteps replay_arrivals(const Arrivals& arrivals, const StreamSettings& settings,
                             std::int64_t groups_of_step, const PlanSettings& plan) {
  Replay replay(settings, groups_of_step, plan);
  for (const SampleAccepted& sample : arrivals.samples) replay.add_sample(sample);
  return replay.finish();
}

std::string arrivals_table(const std::vector<ArrivedSteps>& ways) {
  using enum TextTable::Align;
  TextTable table({{"look-ahead"},
                   {"steps", right},
                   {"planned time", right},
                   {"over\nfirst come", right},
                   {"over one\nplan of all", right},
                   {"staleness", right},
                   {"samples\ndropped", right}});
  for (const ArrivedSteps& way : ways) {
    table.add({std::to_string(way.look_ahead), format_with_commas(std::ssize(way.steps)),
               fmt::format("{:.4g}", way.time()),
               fmt::format("{:.4f}", ratio(way.time(), ways.front().time())),
               fmt::format("{:.4f}", ratio(way.time(), way.at_once)),
               std::to_string(max_staleness_of_steps(way)), format_with_commas(way.dropped)});
  }
  return table.to_text();
}

nlohmann::json arrivals_json(const std::vector<ArrivedSteps>& ways) {
  nlohmann::json array = nlohmann::json::array();
  for (const ArrivedSteps& way : ways) {
    nlohmann::json steps = nlohmann::json::array();
    for (const ArrivedStep& step : way.steps) {
      nlohmann::json groups = nlohmann::json::array();
      for (const Uid& uid : step.groups) groups.push_back(stream::json_of(uid));
      steps.push_back({{"groups", std::move(groups)},
                       {"samples", step.samples},
                       {"tokens", step.tokens},
                       {"time", step.time},
                       {"staleness", step.staleness}});
    }
    array.push_back({{"look_ahead", way.look_ahead},
                     {"time", way.time()},
                     {"time_at_once", way.at_once},
                     {"dropped", way.dropped},
                     {"duplicates", way.duplicates},
                     {"steps", std::move(steps)}});
  }
  return array;
}

}  // namespace evenkeel::cli
