// Every combination of the settings that determine how a step is planned, on small random steps: each one is
// either planned with all guarantees, or rejected because of the key for which the table of keys has a
// reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "balance/fewest_bins.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/settings/requirements.hpp"
#include "support/ids.hpp"
#include "support/sanitized.hpp"

namespace evenkeel {
namespace {

constexpr int dp_ranks = 2;

/// A few samples for three prompts, with their tokens, owned by two ranks.
struct SmallStep {
  LengthTable table;
  std::vector<SharedGroup> trees;
};

SmallStep small_step(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t prompts[] = {1 + below(6), 1 + below(6), 1 + below(6)};
  std::vector<LengthEntry> entries;
  std::vector<std::vector<std::int64_t>> tokens;
  const std::int64_t samples = below(8);
  for (std::int64_t id = 0; id < samples; ++id) {
    const auto uid = static_cast<std::size_t>(below(3));
    const SampleShape shape{SampleId{id}, uid, prompts[uid], below(9)};
    entries.push_back({shape, WorldRank{static_cast<int>(below(dp_ranks))}, static_cast<int>(id), -1, uid});
    std::vector<std::int64_t>& of_sample = tokens.emplace_back(static_cast<std::size_t>(shape.length()), 0);
    for (std::int64_t t = shape.prompt; t < shape.length(); ++t)
      of_sample[static_cast<std::size_t>(t)] = below(2);
  }
  SmallStep step{LengthTable(std::move(entries)), {}};
  std::vector<std::int64_t> rows[3];
  for (std::vector<std::int64_t>& of_field : rows)
    for (std::int64_t id = 0; id < samples; ++id) of_field.push_back(below(5));
  step.table.set_row_counts({{"frames", rows[0]}, {"patches", rows[1]}});
  step.table.set_field_sums({{"work", rows[2]}});
  std::vector<std::span<const std::int64_t>> sequences;
  for (const LengthEntry& entry : step.table.entries()) sequences.push_back(tokens[entry.shape.id.index()]);
  step.trees = prefix_trees(step.table, sequences);
  return step;
}

/// Settings as in a configuration, before they are converted to a strategy.
struct Keys {
  BalanceKeys balance;
  MicroBatchKeys micro_batch;
  bool flexible = false;
  PlanSettings rest;

  [[nodiscard]] Choices choices() const {
    Choices choices = choices_of(rest);
    choices.balance = balance;
    choices.micro_batch = micro_batch;
    choices.flexible_cp = flexible;
    choices.count_multiple = settings().count_multiple();
    return choices;
  }
  [[nodiscard]] PlanSettings settings() const {
    PlanSettings settings = rest;
    settings.balance = balance;
    settings.micro_batch = micro_batch;
    Choices own;
    own.balance = balance;
    own.micro_batch = micro_batch;
    own.flexible_cp = flexible;
    settings.strategy = strategy_for(own, dp_ranks);
    return settings;
  }
};

/// The values of every setting, one list per setting.
using Choice = std::function<void(Keys&)>;
using ChoiceLists = std::vector<std::vector<Choice>>;

template <typename Value, typename Set>
std::vector<Choice> choices(std::initializer_list<Value> values, Set set) {
  std::vector<Choice> list;
  for (const Value& value : values) list.push_back([=](Keys& keys) { set(keys, value); });
  return list;
}

ChoiceLists all_choices() {
  using S = Keys;
  using enum MicroBatchMode;
  const std::optional<BinPacking> any_packing;
  return {
      choices({packed, padded, fixed}, [](S& s, auto v) { s.micro_batch.mode = v; }),
      choices({Strategy::hierarchical, Strategy::grid}, [](S& s, auto v) { s.balance.strategy = v; }),
      choices({PrefixSharing::none, PrefixSharing::prompts, PrefixSharing::trees},
              [](S& s, auto v) { s.rest.sharing = v; }),
      choices({Preset::none, Preset::mindspeed_rl, Preset::roll, Preset::verl},
              [](S& s, auto v) { s.balance.preset = v; }),
      choices({PlacementRule::locality, PlacementRule::none}, [](S& s, auto v) { s.balance.placement = v; }),
      choices({CountRule::fewest, CountRule::fastest}, [](S& s, auto v) { s.micro_batch.count = v; }),
      choices({any_packing, std::optional(BinPacking::first_fit_decreasing),
               std::optional(BinPacking::best_fit_decreasing),
               std::optional(BinPacking::modified_first_fit_decreasing)},
              [](S& s, auto v) { s.micro_batch.packing = v; }),
      choices({MicroBatchOrder::pipeline, MicroBatchOrder::plan, MicroBatchOrder::cost,
               MicroBatchOrder::schedule},
              [](S& s, auto v) { s.micro_batch.order = v; }),
      choices({MiniBatchSettings{1}, {2}, {2, true, true}, {2, false}},
              [](S& s, auto v) { s.rest.mini_batches = v; }),
      choices({false, true}, [](S& s, auto v) { s.balance.equal_count = v; }),
      choices({std::optional<std::int64_t>(), {3}}, [](S& s, auto v) { s.micro_batch.shapes = v; }),
      choices({std::vector<std::int64_t>{}, {1000, 500}}, [](S& s, const auto& v) { s.balance.speeds = v; }),
      choices({BalanceAlgorithm::automatic, BalanceAlgorithm::lpt, BalanceAlgorithm::sorted_stride,
               BalanceAlgorithm::none},
              [](S& s, auto v) { s.balance.algorithm = v; }),
  };
}

/// Numbers that are drawn for each combination: the settings that a profile changes.
void draw_numbers(std::mt19937_64& random, Keys& keys) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  PlanSettings& settings = keys.rest;
  MicroBatchKeys& micro_batch = keys.micro_batch;
  settings.dp = dp_ranks;
  settings.dp_of_rank = {1, 0};
  keys.balance.cost = below(2) == 0 ? CostModel::tokens() : CostModel{3, 1};
  settings.align_lcm = 1 + below(3);
  micro_batch.length_round = 1 + below(4);
  micro_batch.max_tokens = align_up(14, keys.settings().alignment()) + below(30);
  if (below(2) == 0 || micro_batch.shapes) micro_batch.max_samples = 1 + below(4);
  micro_batch.min_count = 1 + below(2);
  if (below(3) == 0) micro_batch.multiple_of = 2;
  micro_batch.size = 1 + below(4);
  micro_batch.shuffle = below(2) == 0;
  settings.pp = 1 + static_cast<int>(below(3));
  if (below(4) == 0) micro_batch.max_rows["patches"] = 4 + below(6);
  if (below(8) == 0) micro_batch.max_rows["frames"] = 4 + below(6);
  if (below(6) == 0) keys.balance.cost_field = "work";
  settings.seed = random();
  if (below(8) == 0) settings.max_path_tokens = 14;
  if (below(8) == 0) settings.schedule = SegmentSchedule::depth_first;
  if (settings.schedule == SegmentSchedule::depth_first && below(4) != 0) keys.balance.meet = SyncPoint::step;
  if (below(16) == 0) settings.max_kept_tokens = keys.settings().alignment() + below(30);
  if (below(4) == 0) {
    micro_batch.equal_counts = EqualCounts::automatic;
    if (below(4) != 0) keys.balance.meet = SyncPoint::step;
  }
}

/// Returns the keys that are incompatible with the strategy or with other settings, according to the table of
/// keys.
std::set<std::string> refusing_keys(const Keys& all) {
  const BalanceKeys& b = all.balance;
  const MicroBatchKeys& m = all.micro_batch;
  const PlanSettings settings = all.settings();
  const bool is_reference = b.preset != Preset::none;
  const bool grid = b.strategy == Strategy::grid;
  const bool padded = m.mode == MicroBatchMode::padded;
  const bool fixed = m.mode == MicroBatchMode::fixed;
  const bool of_all_ranks = grid || all.flexible;
  const bool has_speeds = !b.speeds.empty();
  const bool shares = settings.sharing != PrefixSharing::none;
  const bool is_depth_first = settings.schedule == SegmentSchedule::depth_first;
  const bool has_counts = settings.pp > 1 || settings.count_multiple() > 1 || m.min_count > 1;
  std::set<std::string> keys;
  const auto reject = [&](bool is_refused, const char* key) {
    if (is_refused) keys.insert(key);
  };
  reject(of_all_ranks && (padded || fixed), "micro_batch.mode");
  reject(of_all_ranks && is_reference, "balance.preset");
  reject((of_all_ranks || has_speeds) && b.algorithm != BalanceAlgorithm::automatic, "balance.algorithm");
  reject((of_all_ranks || has_speeds) && b.equal_count, "balance.equal_count");
  reject(of_all_ranks && !settings.mini_batches.keep && settings.mini_batches.count > 1,
         "batch.keep_mini_batch");
  reject(all.flexible && !grid && has_counts, "mesh.cp");
  reject(has_speeds && ((grid && !all.flexible) || is_reference || padded), "balance.speeds");
  const bool packs = !of_all_ranks && !is_reference && !padded && !fixed;
  reject(m.packing && (!packs || m.count == CountRule::fastest), "micro_batch.packing");
  const bool has_a_grid = grid && !all.flexible && !is_reference && !padded && !fixed;
  reject(m.count == CountRule::fastest && !packs && !has_a_grid, "micro_batch.count");
  const bool auto_counts = m.equal_counts == EqualCounts::automatic;
  reject(auto_counts && (!packs || m.count == CountRule::fastest), "micro_batch.equal_counts");
  reject(auto_counts && !b.meet, "balance.meet");
  reject(m.order == MicroBatchOrder::schedule && is_reference, "micro_batch.order");
  reject(b.cost_field && is_reference, "balance.cost.field");
  reject(!m.max_rows.empty() && is_reference, "micro_batch.max_rows");
  reject(m.shapes && (is_reference || padded), "micro_batch.shapes");
  reject(shares && (is_reference || padded || m.shapes), "prefix.share");
  reject(settings.max_path_tokens && !shares, "prefix.max_path_tokens");
  reject(is_depth_first && (!shares || b.meet != SyncPoint::step || settings.pp > 1), "prefix.schedule");
  reject(settings.max_kept_tokens && (!is_depth_first || settings.cp.size > 1 || all.flexible),
         "prefix.max_kept_tokens");
  return keys;
}

std::string description(const Keys& s) {
  const auto number = [](auto value) { return std::to_string(static_cast<std::int64_t>(value)); };
  return "mode " + number(s.micro_batch.mode) + " strategy " + number(s.balance.strategy) + " sharing " +
         number(s.rest.sharing) + " preset " + number(s.balance.preset) + " placement " +
         number(s.balance.placement) + " count " + number(s.micro_batch.count) + " packing " +
         (s.micro_batch.packing ? number(*s.micro_batch.packing) : "auto") + " equal counts " +
         number(s.micro_batch.equal_counts) + " order " + number(s.micro_batch.order) + " mini-batches " +
         number(s.rest.mini_batches.count) + (s.rest.mini_batches.keep ? " kept" : "") +
         (s.rest.mini_batches.shuffle ? " drawn" : "") + " equal " + number(s.balance.equal_count) +
         " speeds " + number(s.balance.speeds.size()) + " algorithm " + number(s.balance.algorithm) +
         (s.micro_batch.shapes ? " shapes" : "") + " fields with caps " +
         number(s.micro_batch.max_rows.size()) + (s.balance.cost_field ? " cost of a field" : "") +
         (s.flexible ? " groups of their own" : "");
}

/// A planned step and its guarantees.
class PlannedStep {
 public:
  PlannedStep(const SmallStep& step, const PlanSettings& settings)
      : settings_(settings),
        problem_{step.table, settings_, 3, step.trees},
        assignment_(assign_step(problem_)),
        plan_(plan_step(problem_)) {}

  void expect_all_promises() const {
    if (settings_.find<ContextGroupSettings>() != nullptr) return expect_promises_of_groups();
    expect_every_sample_once();
    expect_equal_counts();
    for (const DpRankPlan& rank : plan_.ranks) {
      for (const MicroBatchPlan& m : rank.micro_batches) expect_limits(m);
    }
    expect_groups_whole();
    expect_bounds();
  }

 private:
  /// Requires that every member of a group lists its micro-batches in the same order.
  void expect_promises_of_groups() const {
    std::vector<EntryId> entries;
    std::vector<std::vector<const MicroBatchPlan*>> of_all;  // what both DP ranks run
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
      of_all.emplace_back();
      for (const MicroBatchPlan& m : plan_.ranks[r].micro_batches) {
        const DpRank rank{static_cast<int>(r)};
        EXPECT_TRUE(m.context.contains(DataPlace{rank.value()}));
        EXPECT_LE(m.aligned_tokens, settings_.cap(m.context.size));
        EXPECT_LE(std::ssize(m.entries), settings_.limits().max_items);
        expect_row_caps(m);
        if (m.is_led_by(rank)) entries.insert(entries.end(), m.entries.begin(), m.entries.end());
        if (m.context.size == dp_ranks) of_all.back().push_back(&m);
      }
    }
    std::ranges::sort(entries);
    EXPECT_EQ(entries, testing_support::all_ids<EntryId>(problem_.table.size()));
    EXPECT_TRUE(std::ranges::equal(of_all.front(), of_all.back(),
                                   [](const auto* left, const auto* right) { return *left == *right; }));
    if (settings_.find<ContextTreeSettings>() == nullptr) expect_equal_counts();
    expect_groups_whole();
  }

  void expect_every_sample_once() const {
    std::vector<EntryId> entries;
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
      std::vector<EntryId> of_rank;
      for (const MicroBatchPlan& m : plan_.ranks[r].micro_batches)
        of_rank.insert(of_rank.end(), m.entries.begin(), m.entries.end());
      EXPECT_TRUE(std::ranges::is_permutation(of_rank, assignment_.shares[static_cast<std::int64_t>(r)]));
      entries.insert(entries.end(), of_rank.begin(), of_rank.end());
    }
    std::ranges::sort(entries);
    EXPECT_EQ(entries, testing_support::all_ids<EntryId>(problem_.table.size()));
  }

  void expect_equal_counts() const {
    const auto* packed = settings_.find<PackedSettings>();
    for (const DpRankPlan& rank : plan_.ranks) {
      EXPECT_LE(std::ssize(rank.micro_batches), plan_.num_micro_batches());
      EXPECT_GE(std::ssize(rank.micro_batches), std::ssize(plan_.counts));
      if (packed != nullptr && packed->free_counts) continue;
      EXPECT_EQ(std::ssize(rank.micro_batches), plan_.num_micro_batches());
    }
    for (const std::int64_t count : plan_.counts) {
      EXPECT_EQ(count % settings_.count_multiple(), 0);
      EXPECT_GE(count, settings_.micro_batch.min_count);
    }
  }

  [[nodiscard]] bool keeps_caps() const {
    const auto* reference = std::get_if<ReferenceSettings>(&settings_.strategy);
    return reference == nullptr || !std::holds_alternative<AssignmentSettings>(reference->micro_batches);
  }

  // None of the presets' references keeps its caps.
  void expect_limits(const MicroBatchPlan& m) const {
    if (!keeps_caps()) return;
    EXPECT_LE(m.aligned_tokens, settings_.micro_batch.max_tokens);
    EXPECT_LE(std::ssize(m.entries), settings_.limits().max_items);
    expect_row_caps(m);
    if (settings_.balance.cost_field) {
      const std::span<const std::int64_t> work = problem_.table.field_sums().front().sums;
      Cost cost = 0;
      for (const EntryId entry : m.entries) cost += work[entry.index()];
      EXPECT_EQ(m.cost, cost);
    }
  }

  void expect_row_caps(const MicroBatchPlan& m) const {
    for (const auto& [field, most] : settings_.micro_batch.max_rows) {
      std::int64_t rows = 0;
      for (const EntryId entry : m.entries)
        rows += rows_of(problem_.table.row_counts(), field)[entry.index()];
      EXPECT_LE(rows, most) << field;
    }
  }

  void expect_groups_whole() const {
    const PackUnits& units = assignment_.units;
    if (!units.has_shared_prefixes()) return;
    std::map<EntryId, std::tuple<std::size_t, MiniBatchId, std::size_t>> place_of_entry;
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
      for (std::size_t j = 0; j < plan_.ranks[r].micro_batches.size(); ++j) {
        const MicroBatchPlan& m = plan_.ranks[r].micro_batches[j];
        if (!m.is_led_by(DpRank{static_cast<int>(r)})) continue;
        for (const EntryId entry : m.entries) place_of_entry[entry] = {r, m.mini_batch, j};
      }
    }
    for (const UnitId u : ids_below<UnitId>(units.size())) {
      for (const EntryId entry : units[u].entries)
        EXPECT_EQ(place_of_entry[entry], place_of_entry[units[u].entries.front()]);
    }
    if (!settings_.mini_batches.keep) return;
    for (std::int64_t g = 0; g < units.num_groups(); ++g) {
      const auto mini_batch_of = [&](UnitId unit) {
        return std::get<1>(place_of_entry[units[unit].entries.front()]);
      };
      for (const UnitId u : units.units_of_group(g))
        EXPECT_EQ(mini_batch_of(u), mini_batch_of(units.first_unit_of_group(g)));
    }
  }

  /// Returns the minimum number of micro-batches that units can be packed into under each single limit on
  /// rows of fields, or under the other limits.
  [[nodiscard]] std::int64_t optimum_of(IdView<UnitId> units) const {
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> samples;
    for (const UnitId unit : units) {
      sizes.push_back(assignment_.units[unit].aligned_rows);
      samples.push_back(std::ssize(assignment_.units[unit].entries));
    }
    std::int64_t fewest = fewest_bins({sizes, samples}, settings_.limits());
    for (const auto& [field, most] : settings_.micro_batch.max_rows) {
      std::vector<std::int64_t> rows;
      for (const UnitId unit : units) {
        rows.push_back(0);
        for (const EntryId entry : assignment_.units[unit].entries)
          rows.back() += rows_of(problem_.table.row_counts(), field)[entry.index()];
      }
      fewest = std::max(fewest, fewest_bins(rows, {.max_size = most}));
    }
    return fewest;
  }

  void expect_bounds() const {
    std::vector<std::int64_t> optima(plan_.ranks.size(), 0);
    for (std::size_t m = 0; m < assignment_.mini_batches.size(); ++m) {
      const IdGroups<UnitId>& units = assignment_.mini_batches[m].units;
      const std::int64_t of_all = (optimum_of(units.ids()) + dp_ranks - 1) / dp_ranks;
      for (std::size_t r = 0; r < optima.size(); ++r) {
        const std::int64_t of_rank = optimum_of(units[static_cast<std::int64_t>(r)]);
        const bool grid = std::holds_alternative<GridSettings>(settings_.strategy);
        optima[r] += grid ? of_all : max_of_ranks(units, of_rank);
        if (keeps_caps()) {
          EXPECT_GE(plan_.counts[m], std::max(of_all, of_rank));
        }
      }
    }
    for (std::size_t r = 0; r < optima.size(); ++r) EXPECT_LE(plan_.ranks[r].lower_bound, optima[r]);
  }

  // Padded micro-batches are planned for all ranks together, and the rank that needs most sets their number.
  [[nodiscard]] std::int64_t max_of_ranks(const IdGroups<UnitId>& units, std::int64_t of_rank) const {
    if (settings_.find<PaddedSettings>() == nullptr) return of_rank;
    for (int r = 0; r < dp_ranks; ++r) of_rank = std::max(of_rank, optimum_of(units[r]));
    return of_rank;
  }

  PlanSettings settings_;
  StepProblem problem_;
  StepAssignment assignment_;
  StepPlan plan_;
};

/// Plans the step or expects it to be rejected because of one of the keys; returns whether it was planned.
bool plan_or_refuse(const SmallStep& step, const Keys& all) {
  const std::set<std::string> keys = refusing_keys(all);
  try {
    require_compatible(all.choices());
    const PlannedStep planned(step, all.settings());
    EXPECT_TRUE(keys.empty()) << "planned in spite of " << *keys.begin();
    planned.expect_all_promises();
    return true;
  } catch (const ConfigError& error) {
    EXPECT_TRUE(keys.contains(error.report().where)) << error.what();
    EXPECT_FALSE(error.report().hint.empty());
    return false;
  }
}

class EveryCombination : public testing::TestWithParam<int> {};

// The values of the first setting are test parameters, so the work is distributed over tests.
TEST_P(EveryCombination, is_planned_as_promised_or_refused_with_a_reason) {
  const ChoiceLists settings_choices = all_choices();
  std::vector<std::size_t> chosen(settings_choices.size(), 0);
  chosen[0] = static_cast<std::size_t>(GetParam());
  std::int64_t planned = 0;
  std::int64_t refused = 0;
  std::uint64_t number = 0;
  constexpr std::uint64_t some = 5;  // of them with groups of different sizes, too
  for (bool more = true; more; ++number) {
    std::mt19937_64 random(number);
    Keys keys;
    for (std::size_t i = 0; i < chosen.size(); ++i) settings_choices[i][chosen[i]](keys);
    draw_numbers(random, keys);
    if (number % testing_support::one_in == 0)
      ++(plan_or_refuse(small_step(random()), keys) ? planned : refused);
    if (HasFailure()) FAIL() << description(keys);
    if (number % (testing_support::one_in * some) == 0) {
      keys.flexible = true;
      ++(plan_or_refuse(small_step(random()), keys) ? planned : refused);
      if (HasFailure()) FAIL() << description(keys);
    }
    more = false;
    for (std::size_t i = 1; i < chosen.size() && !more; ++i) {
      more = ++chosen[i] < settings_choices[i].size();
      if (!more) chosen[i] = 0;
    }
  }
  RecordProperty("planned", std::to_string(planned));
  RecordProperty("refused", std::to_string(refused));
  EXPECT_GT(planned, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, EveryCombination, testing::Values(0, 1, 2), [](const testing::TestParamInfo<int>& mode) {
      return std::string(mode.param == 0 ? "packed" : mode.param == 1 ? "padded" : "fixed");
    });

}  // namespace
}  // namespace evenkeel
