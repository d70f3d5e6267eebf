#include "plan/settings/requirements.hpp"

#include <algorithm>
#include <iterator>

#include "evenkeel/base/error.hpp"
#include "plan/strategies/strategy.hpp"

/// A separate namespace for the tables, since their entries have names that are also used elsewhere.
namespace evenkeel::requirement_table {
namespace {

using C = const Choices&;

// Settings that features need.

constexpr Need meeting{"balance.strategy", "grid", "groups that meet at every micro-batch",
                       [](C c) { return c.balance.strategy == Strategy::grid; }};
constexpr Need meeting_once{"balance.meet", "step", "DP ranks that meet once per step",
                            [](C c) { return c.balance.meet == SyncPoint::step; }};
constexpr Need known_meeting{
    "balance.meet", "", "Set it to step for plain data parallelism, or to micro-batch for FSDP and experts",
    [](C c) { return c.balance.meet.has_value(); }};
constexpr Need one_rank{"mesh.cp", "1", "sequences that are not cut",
                        [](C c) { return !c.flexible_cp && c.cp == 1; }};
constexpr Need one_stage{"mesh.pp", "1", "a model with a single pipeline stage",
                         [](C c) { return c.pp == 1; }};
constexpr Need nothing_ahead{"pack.predict_ahead", "0", "prediction of only the next token",
                             [](C c) { return c.predict_ahead == 0; }};
constexpr Need depth_first{"prefix.schedule", "dfs", "segments that are run depth first",
                           [](C c) { return c.schedule == SegmentSchedule::depth_first; }};
constexpr Need own_sizes{"mesh.cp", "flexible", "groups of different sizes",
                         [](C c) { return c.flexible_cp; }};
constexpr Need shared{"prefix.share", "true or tree", "samples that share prefixes",
                      [](C c) { return c.sharing != PrefixSharing::none; }};
constexpr Need cap_of_a_rank{"micro_batch.max_tokens_per_rank", "",
                             "Set it instead of micro_batch.max_tokens",
                             [](C c) { return c.has_cap_per_rank; }};
constexpr Need outlier_length{"batch.outlier_length", "",
                              "Set it to the length above which a sample is an outlier",
                              [](C c) { return c.delay.longer_than.has_value(); }};
constexpr Need companions{"batch.outliers_per_step", "", "Set it to the number of DP ranks",
                          [](C c) { return c.delay.outliers_per_step.has_value(); }};
constexpr Need own_reading{"source.kind", "any but embedded", "samples that Evenkeel reads",
                           [](C c) { return c.are_samples_read; }};
constexpr Need read_once{"source.epochs", "1", "a source that is read once",
                         [](C c) { return c.source_epochs == 1; }};
constexpr Need one_epoch{"batch.epochs", "1", "one epoch", [](C c) { return c.batch.epochs == 1; }};
constexpr Need unshuffled{"batch.shuffle", "false", "samples that are not shuffled",
                          [](C c) { return !c.batch.shuffle; }};
constexpr Need last_batch{"batch.drop_last", "false", "a smaller last step to be allowed",
                          [](C c) { return !c.batch.drop_last; }};
constexpr Need no_delay{"batch.delay_outliers", "0", "outliers not to be delayed",
                        [](C c) { return !c.delay.is_on(); }};
constexpr Need empty_allowed{"batch.empty", "keep or drop", "empty samples to be allowed",
                             [](C c) { return c.filter.empty != EmptySample::error; }};
constexpr Need masked_allowed{"batch.without_loss", "keep or drop", "samples without loss to be allowed",
                              [](C c) { return c.filter.without_loss != WithoutLoss::error; }};
constexpr Need lines{"source.kind", "jsonl or stream", "JSON Lines", [](C c) { return c.are_lines_read; }};
constexpr Need whole_rows{"field.layers", "null", "rows that are not split by layers",
                          [](C c) { return !c.field.layers; }};
constexpr Need narrow_wire{"field.wire_dtype", "narrow", "integers to be sent in a narrow type",
                           [](C c) { return c.field.wire_dtype == FieldWidth::narrow; }};
constexpr Need original_elements{"field.dtype", "original", "elements in the type of the samples",
                                 [](C c) { return c.field.dtype == FieldWidth::original; }};
constexpr Need own_values{"field.share", "none", "values that samples do not share",
                          [](C c) { return c.field.share == FieldSharing::none; }};

// Features that need or exclude other settings. With default settings, none of them is used.

constexpr Feature max_cp{"mesh.max_cp", "", "mesh.max_cp: auto", [](C c) { return c.has_max_group_size; }};
constexpr Feature flexible{"mesh.cp", "flexible", "mesh.cp to a number", [](C c) { return c.flexible_cp; }};
constexpr Feature flexible_counts{
    "mesh.cp", "flexible with mesh.pp, micro_batch.min_count or micro_batch.multiple_of above 1",
    "mesh.cp to a number",
    [](C c) { return c.flexible_cp && (c.pp > 1 || c.micro_batch.min_count > 1 || c.count_multiple > 1); }};
constexpr Feature flexible_meeting{
    "mesh.cp", "flexible with balance.meet: micro-batch", "mesh.cp to a number",
    [](C c) { return c.flexible_cp && c.balance.meet == SyncPoint::micro_batch; }};
constexpr Feature grid{"balance.strategy", "grid", "balance.strategy: hierarchical",
                       [](C c) { return c.balance.strategy == Strategy::grid && !c.flexible_cp; }};
constexpr Feature reference{"balance.preset", "", "balance.preset: none",
                            [](C c) { return c.balance.preset != Preset::none; }};
constexpr Feature padded{"micro_batch.mode", "padded", "micro_batch.mode: packed",
                         [](C c) { return c.micro_batch.mode == MicroBatchMode::padded; }};
constexpr Feature fixed{"micro_batch.mode", "fixed", "micro_batch.mode: packed",
                        [](C c) { return c.micro_batch.mode == MicroBatchMode::fixed; }};
constexpr Feature named_algorithm{"balance.algorithm", "", "balance.algorithm: auto",
                                  [](C c) { return c.balance.algorithm != BalanceAlgorithm::automatic; }};
constexpr Feature equal{"balance.equal_count", "true", "balance.equal_count: false",
                        [](C c) { return c.balance.equal_count; }};
constexpr Feature unrefined{"balance.refine", "false", "balance.refine: true",
                            [](C c) { return !c.balance.refine; }};
constexpr Feature cut_later{"batch.keep_mini_batch", "false with batch.mini_batches above 1",
                            "batch.keep_mini_batch: true",
                            [](C c) { return !c.mini_batches.keep && c.mini_batches.count > 1; }};
constexpr Feature named_alignment{"pack.align", "", "pack.align: auto", [](C c) { return c.has_alignment; }};
constexpr Feature whole_samples{"pack.deliver", "samples", "pack.deliver: packed",
                                [](C c) { return c.delivery == Delivery::samples; }};
constexpr Feature speeds{"balance.speeds", "", "balance.speeds: equal",
                         [](C c) { return !c.balance.speeds.empty(); }};
constexpr Feature encoder{"balance.cost", ".encoder", "remove balance.cost.encoder",
                          [](C c) { return c.balance.encoder.has_value(); }};
constexpr Feature cost_of_field{"balance.cost", ".field", "balance.cost: tokens",
                                [](C c) { return c.balance.cost_field.has_value(); }};
constexpr Feature max_rows{"micro_batch.max_rows", "", "micro_batch.max_rows: null",
                           [](C c) { return !c.micro_batch.max_rows.empty(); }};
constexpr Feature measured{"balance.cost", "measured", "balance.cost to another cost",
                           [](C c) { return c.balance.measured.has_value(); }};
constexpr Feature packing{"micro_batch.packing", "", "micro_batch.packing: auto",
                          [](C c) { return c.micro_batch.packing.has_value(); }};
constexpr Feature fastest{"micro_batch.count", "fastest", "micro_batch.count: fewest",
                          [](C c) { return c.micro_batch.count == CountRule::fastest; }};
constexpr Feature free_counts{"micro_batch.equal_counts", "auto", "micro_batch.equal_counts: always",
                              [](C c) { return c.micro_batch.equal_counts == EqualCounts::automatic; }};
constexpr Feature schedule{"micro_batch.order", "schedule", "micro_batch.order to another order",
                           [](C c) { return c.micro_batch.order == MicroBatchOrder::schedule; }};
constexpr Feature shapes{"micro_batch.shapes", "", "micro_batch.shapes: null",
                         [](C c) { return c.micro_batch.shapes.has_value(); }};
constexpr Feature sharing{"prefix.share", "true or tree", "prefix.share: false",
                          [](C c) { return c.sharing != PrefixSharing::none; }};
constexpr Feature path_cap{"prefix.max_path_tokens", "", "prefix.max_path_tokens: null",
                           [](C c) { return c.caps_paths; }};
constexpr Feature dfs{"prefix.schedule", "dfs", "prefix.schedule: packed",
                      [](C c) { return c.schedule == SegmentSchedule::depth_first; }};
constexpr Feature kept_cap{"prefix.max_kept_tokens", "", "prefix.max_kept_tokens: null",
                           [](C c) { return c.caps_kept_tokens; }};
constexpr Feature mindspeed_loss{"loss.aggregation", "mindspeed-rl", "loss.aggregation to another value",
                                 [](C c) { return c.loss == LossAggregation::mindspeed_rl; }};
constexpr Feature delay{"batch.delay_outliers", "", "batch.delay_outliers: 0",
                        [](C c) { return c.delay.is_on(); }};
constexpr Feature arrivals{"source.kind", "stream", "source.kind to another value",
                           [](C c) { return c.are_samples_awaited; }};
constexpr Feature stage{"field.stage", "first or all", "field.stage: last",
                        [](C c) { return c.field.stage != FieldStages::last; }};
constexpr Feature narrow{"field.dtype", "narrow", "field.dtype: original",
                         [](C c) { return c.field.dtype == FieldWidth::narrow; }};
constexpr Feature cut_by{"field.cut_by", "", "field.cut_by: null",
                         [](C c) { return !c.field.cut_by.empty(); }};
constexpr Feature spread_pads{"field.spread_pads", "above 0", "field.spread_pads: 0",
                              [](C c) { return c.field.spread_pads > 0; }};
constexpr Feature read_as{"field.read_as", "", "field.read_as: null",
                          [](C c) { return c.field.read_as.has_value(); }};

constexpr Requirement table[] = {
    {max_cp, own_sizes, "otherwise all groups have mesh.cp ranks"},

    {flexible, cap_of_a_rank, "the cap of a group is this number times the ranks of the group"},
    {flexible_counts, meeting, "otherwise ranks have different numbers of micro-batches"},
    {flexible_meeting, meeting,
     "otherwise ranks have different numbers of micro-batches, and some would wait forever"},

    {free_counts, known_meeting,
     "ranks that meet at every micro-batch hang if their numbers of micro-batches differ"},

    {path_cap, shared,
     "samples that do not share prefixes are not paths of a tree, and batch.max_length limits them"},

    {dfs, shared, "separate samples are run one after another without a schedule"},
    {dfs, meeting_once,
     "DP ranks have different numbers of segments, so ranks that meet in every pass would wait forever"},
    {dfs, one_stage, "segments of a path wait for each other, so stages of a pipeline would be idle"},
    {dfs, nothing_ahead,
     "a module that predicts further ahead would need the keys and values of each of its depths"},
    {kept_cap, depth_first, "a schedule that runs all segments at once keeps all of their tokens"},
    {kept_cap, one_rank,
     "the cap cuts segments, and each context-parallel rank would have different rows of a part"},

    {delay, outlier_length, "no other key defines which samples are outliers"},
    {delay, companions, "no other key defines how many outliers share a step"},
    {delay, own_reading, "samples that a program adds to a step stay in that step"},

    {arrivals, read_once, "samples that arrive are trained once"},
    {arrivals, one_epoch, "samples that arrive are trained once"},
    {arrivals, unshuffled,
     "steps are formed from the samples that are waiting, in an order that is recorded"},
    {arrivals, last_batch,
     "every sample that arrives is trained or counted as dropped, and the last step has the remaining ones"},
    {arrivals, no_delay, "stream.look_ahead chooses which long samples share a step"},
    {arrivals, empty_allowed,
     "samples arrive one by one, so they cannot all be checked before the first step"},
    {arrivals, masked_allowed, "a recorded step must be built before later steps can be trained"},

    {stage, whole_rows, "layers determine which stage gets which rows"},
    {narrow, narrow_wire, "the narrow type is chosen when integers are sent"},
    {cut_by, own_values, "rows that are stored once for all ranks are not cut"},
    {spread_pads, original_elements,
     "the narrow type is chosen from the experts of the samples, and may not hold those of pad rows"},
    {read_as, lines, "the key describes how JSON Lines write the field"},
};

constexpr Feature excluded_by_flexible_groups[] = {
    padded,  fixed,   reference,   named_algorithm, equal,   unrefined,     cut_later,
    packing, fastest, free_counts, named_alignment, encoder, mindspeed_loss};
constexpr Feature excluded_by_grids[] = {padded,    fixed,   reference,   named_algorithm, equal,
                                         cut_later, packing, free_counts, speeds,          encoder};
constexpr Feature excluded_by_presets[] = {speeds,      encoder,  cost_of_field, measured, packing, fastest,
                                           free_counts, schedule, max_rows,      shapes,   sharing};
constexpr Feature excluded_by_padded[] = {speeds, encoder, packing, fastest, free_counts, shapes, sharing};
constexpr Feature excluded_by_fixed[] = {packing, fastest, free_counts};
constexpr Feature excluded_by_speeds[] = {named_algorithm, unrefined, equal};
constexpr Feature excluded_by_encoders[] = {named_algorithm, unrefined, equal, speeds};
constexpr Feature excluded_by_whole_samples[] = {shapes, sharing};
constexpr Feature excluded_by_delay[] = {encoder, cost_of_field, max_rows};

constexpr Exclusion exclusion_table[] = {
    {flexible, excluded_by_flexible_groups,
     "groups of DP ranks get samples, and their sizes are chosen with the samples"},
    {grid, excluded_by_grids,
     "a grid packs the micro-batches of all DP ranks at once, with its own algorithm"},
    {reference, excluded_by_presets, "a preset plans exactly as its system does"},
    {padded, excluded_by_padded, "a padded row has one sample, and a length that all DP ranks share"},
    {fixed, excluded_by_fixed, "fixed micro-batches have a fixed number of samples"},
    {speeds, excluded_by_speeds, "balancing by speed has its own algorithm"},
    {encoder, excluded_by_encoders, "encoder and model work are balanced together by a separate algorithm"},
    {fastest,
     {&packing, 1},
     "fastest balances the micro-batches of each count that it tries, but those of a named packing are not "
     "balanced"},
    {fastest, {&free_counts, 1}, "fastest compares numbers of micro-batches that are equal on all ranks"},
    {shapes, {&sharing, 1}, "the number of segments of shared prefixes has no bound"},
    {whole_samples, excluded_by_whole_samples, "whole samples have neither pad rows nor shared rows"},
    {delay, excluded_by_delay,
     "balancing then depends on a field of the samples, which is not known before a step is read"},
    {delay,
     {&sharing, 1},
     "steps are arranged by lengths alone, before samples are read, which would separate samples that share "
     "a "
     "prefix"},
    {delay,
     {&measured, 1},
     "steps are arranged by cost, and a measured cost differs from run to run, so the samples of a step "
     "would also differ"},
    {delay,
     {&flexible, 1},
     "with groups of different sizes, a long sample gets a larger group, so no DP rank waits for it"},
    {delay, {&speeds, 1}, "the samples of a step would depend on the machines"},
};

}  // namespace
}  // namespace evenkeel::requirement_table

namespace evenkeel {
namespace {

/// Returns whether a feature's `value` names a nested key, such as ".encoder", instead of a value of the key.
bool is_inner_key(std::string_view value) {
  return value.starts_with('.');
}

std::string format_setting(std::string_view key, std::string_view value) {
  if (value.empty()) return std::string(key);
  return std::string(key) + (is_inner_key(value) ? "" : ": ") + std::string(value);
}

/// Returns the key as the user writes it: for a field's setting, "field." becomes "fields.NAME.".
std::string user_key(std::string_view text, const Choices& choices) {
  constexpr std::string_view section = "field.";
  if (choices.field_name.empty() || !text.starts_with(section)) return std::string(text);
  return "fields." + std::string(choices.field_name) + "." + std::string(text.substr(section.size()));
}

[[noreturn]] void reject(const Requirement& requirement, const Choices& choices) {
  const auto& [feature, need, why] = requirement;
  const std::string since = ", since " + std::string(why);
  if (need.value.empty()) {
    throw ConfigError(user_key(need.key, choices),
                      "is not set, but " + format_setting(feature.key, feature.value) + " needs it" + since,
                      std::string(need.words));
  }
  throw ConfigError(user_key(feature.key, choices),
                    std::string(feature.value) + (feature.value.empty() ? "" : " ") + "needs " +
                        std::string(need.words) + since,
                    "Set " + format_setting(user_key(need.key, choices), need.value) + ", or " +
                        user_key(feature.instead, choices));
}

/// Returns a hint with two alternatives, each a setting or "remove KEY".
std::string format_alternatives(std::string_view first, std::string_view second) {
  constexpr std::string_view removal = "remove ";
  if (!first.starts_with(removal)) return "Set " + std::string(first) + ", or " + std::string(second);
  return "R" + std::string(first.substr(1)) + ", or " + (second.starts_with(removal) ? "" : "set ") +
         std::string(second);
}

[[noreturn]] void reject(const Exclusion& exclusion, const Feature& other) {
  const auto& [feature, others, why] = exclusion;
  const bool is_inner = is_inner_key(other.value);
  throw ConfigError(is_inner ? format_setting(other.key, other.value) : std::string(other.key),
                    (is_inner || other.value.empty() ? "" : std::string(other.value) + " ") +
                        "cannot be combined with " + format_setting(feature.key, feature.value) + ", since " +
                        std::string(why),
                    format_alternatives(other.instead, feature.instead));
}

/// Returns the first requirement that is not met; null if all are met.
const Requirement* first_unmet_requirement(const Choices& choices) {
  const auto* const found =
      std::ranges::find_if(requirement_table::table, [&](const Requirement& requirement) {
        return requirement.feature.is_used(choices) && !requirement.need.is_met(choices);
      });
  return found == std::end(requirement_table::table) ? nullptr : found;
}

/// Returns the first setting in use that the exclusion rules out; null if there is none.
const Feature* first_excluded_feature(const Exclusion& exclusion, const Choices& choices) {
  if (!exclusion.feature.is_used(choices)) return nullptr;
  const auto found =
      std::ranges::find_if(exclusion.others, [&](const Feature& other) { return other.is_used(choices); });
  return found == exclusion.others.end() ? nullptr : &*found;
}

}  // namespace

namespace {

void add_strategy_choices(Choices& choices, const PlanSettings& settings) {
  const PlanningStrategy& strategy = strategy_of(settings);
  if (const auto* own = settings.find<AssignmentSettings>())
    static_cast<AssignmentSettings&>(choices.balance) = *own;
  if (const auto* packed = settings.find<PackedSettings>()) {
    choices.micro_batch.packing = packed->packing;
    choices.micro_batch.count = packed->count;
    if (packed->free_counts) choices.micro_batch.equal_counts = EqualCounts::automatic;
  }
  if (const auto* grid = settings.find<GridSettings>()) choices.micro_batch.count = grid->count;
  if (const auto* reference = std::get_if<ReferenceSettings>(&settings.strategy))
    choices.balance.preset = reference->system;
  if (strategy.pads_micro_batches()) choices.micro_batch.mode = MicroBatchMode::padded;
  if (strategy.has_fixed_micro_batches()) choices.micro_batch.mode = MicroBatchMode::fixed;
  choices.balance.strategy = strategy.ranks_meet_at_micro_batches() ? Strategy::grid : Strategy::hierarchical;
  choices.flexible_cp = strategy.has_flexible_groups();
}

}  // namespace

Choices choices_of(const PlanSettings& settings) {
  Choices choices;
  static_cast<BalanceSettings&>(choices.balance) = settings.balance;
  static_cast<MicroBatchSettings&>(choices.micro_batch) = settings.micro_batch;
  add_strategy_choices(choices, settings);
  choices.mini_batches = settings.mini_batches;
  choices.sharing = settings.sharing;
  choices.caps_paths = settings.max_path_tokens.has_value();
  choices.schedule = settings.schedule;
  choices.caps_kept_tokens = settings.max_kept_tokens.has_value();
  choices.predict_ahead = settings.predict_ahead;
  choices.cp = settings.cp.size;
  choices.pp = settings.pp;
  choices.count_multiple = settings.count_multiple();
  choices.has_alignment = settings.align.has_value();
  choices.delivery = settings.delivery;
  return choices;
}

std::span<const Requirement> requirements() {
  return requirement_table::table;
}

std::span<const Exclusion> exclusions() {
  return requirement_table::exclusion_table;
}

bool are_compatible(const Choices& choices) {
  return first_unmet_requirement(choices) == nullptr &&
         std::ranges::none_of(exclusions(), [&](const Exclusion& exclusion) {
           return first_excluded_feature(exclusion, choices) != nullptr;
         });
}

Strategy resolve_strategy(Choices choices) {
  if (!choices.flexible_cp || choices.balance.strategy != Strategy::automatic)
    return choices.balance.strategy;
  choices.balance.strategy = Strategy::grid;
  const bool waves = are_compatible(choices);
  choices.balance.strategy = Strategy::hierarchical;
  const bool tree = are_compatible(choices);
  if (waves && !tree) return Strategy::grid;
  if (!waves || choices.balance.meet) return Strategy::hierarchical;
  throw ConfigError(
      "balance.meet",
      "is not set, but mesh.cp: flexible needs it, since ranks that meet at every micro-batch "
      "must all have the same number of them",
      "Set balance.meet: step for plain data parallelism, or balance.meet: micro-batch for FSDP and "
      "experts; or name a balance.strategy");
}

StrategySettings strategy_for(const Choices& choices, int largest_group) {
  const BalanceKeys& balance = choices.balance;
  const MicroBatchKeys& keys = choices.micro_batch;
  const bool is_grid = balance.strategy == Strategy::grid;
  if (choices.flexible_cp && is_grid) return ContextWavesSettings{largest_group};
  if (choices.flexible_cp) return ContextTreeSettings{largest_group};
  if (is_grid) return GridSettings{keys.count};
  const AssignmentSettings& assignment = balance;
  const PaddedSettings padded{assignment, keys.length_round};
  const FixedSettings fixed{assignment, keys.size, keys.shuffle};
  const bool is_reference = balance.preset != Preset::none;
  switch (keys.mode) {
    case MicroBatchMode::padded:
      if (is_reference) return ReferenceSettings{balance.preset, padded};
      return padded;
    case MicroBatchMode::fixed:
      if (is_reference) return ReferenceSettings{balance.preset, fixed};
      return fixed;
    case MicroBatchMode::packed:
      break;
  }
  if (is_reference) return ReferenceSettings{balance.preset, assignment};
  const bool has_free_counts = keys.equal_counts == EqualCounts::automatic && balance.meet == SyncPoint::step;
  return PackedSettings{assignment, keys.packing, keys.count, balance.strategy == Strategy::automatic,
                        has_free_counts};
}

void require_compatible(const Choices& choices) {
  if (const Requirement* unmet = first_unmet_requirement(choices)) reject(*unmet, choices);
  for (const Exclusion& exclusion : exclusions()) {
    if (const Feature* other = first_excluded_feature(exclusion, choices)) reject(exclusion, *other);
  }
}

std::string rules_of(std::string_view key) {
  // The beginning of each sentence (subject and verb), and its objects.
  std::vector<std::pair<std::string, std::string>> sentences;
  const auto add = [&](const Feature& feature, const std::string& verb, const std::string& object) {
    if (feature.key != key) return;
    std::string subject(feature.value);
    if (subject.empty()) subject = "If it is set, it";
    if (is_inner_key(subject)) subject = format_setting(key, subject);
    const std::string beginning = subject + " " + verb + " ";
    const auto found = std::ranges::find(sentences, beginning, &std::pair<std::string, std::string>::first);
    if (found == sentences.end()) {
      sentences.emplace_back(beginning, object);
    } else {
      found->second += "; " + object;
    }
  };
  for (const auto& [feature, need, why] : requirements())
    add(feature, "needs", format_setting(need.key, need.value));
  for (const auto& [feature, others, why] : exclusions()) {
    for (const Feature& other : others)
      add(other, "cannot be combined with", format_setting(feature.key, feature.value));
  }
  std::string text;
  for (const auto& [beginning, objects] : sentences)
    text += (text.empty() ? "" : " ") + beginning + objects + ".";
  return text;
}

std::string requirements_markdown() {
  std::string text = "| setting | needs | since |\n|---|---|---|\n";
  for (const auto& [feature, need, why] : requirements()) {
    text += "| `" + format_setting(feature.key, feature.value) + "` | `" +
            format_setting(need.key, need.value) + "` | " + std::string(why) + " |\n";
  }
  text += "\n| setting | cannot be combined with | since |\n|---|---|---|\n";
  for (const auto& [feature, others, why] : exclusions()) {
    text += "| `" + format_setting(feature.key, feature.value) + "` | ";
    for (const Feature& other : others)
      text += (&other == &others.front() ? "`" : ", `") + format_setting(other.key, other.value) + "`";
    text += " | " + std::string(why) + " |\n";
  }
  return text;
}

}  // namespace evenkeel
