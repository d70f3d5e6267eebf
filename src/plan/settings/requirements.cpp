#include "plan/settings/requirements.hpp"

#include <algorithm>
#include <iterator>

#include "evenkeel/base/error.hpp"

/// A namespace of its own, since these words are used elsewhere.
namespace evenkeel::requirement_table {
namespace {

using C = const Choices&;

// What features need.

constexpr Need packed{"micro_batch.mode", "packed", "packed micro-batches",
                      [](C c) { return c.micro_batch.mode == MicroBatchMode::packed; }};
constexpr Need back_to_back{"micro_batch.mode", "packed or fixed", "micro-batches that are not padded",
                            [](C c) { return c.micro_batch.mode != MicroBatchMode::padded; }};
constexpr Need own_planning{"balance.preset", "none", "Evenkeel's own planning",
                            [](C c) { return c.balance.preset == Preset::none; }};
constexpr Need own_algorithm{"balance.algorithm", "auto", "an algorithm that is not named",
                             [](C c) { return c.balance.algorithm == BalanceAlgorithm::automatic; }};
constexpr Need by_work{"balance.algorithm", "auto, karmarkar-karp or lpt",
                       "samples that are assigned by work", [](C c) {
                         return c.balance.algorithm != BalanceAlgorithm::sorted_stride &&
                                c.balance.algorithm != BalanceAlgorithm::none;
                       }};
constexpr Need free_counts{"balance.equal_count", "false", "free numbers of samples",
                           [](C c) { return !c.balance.equal_count; }};
constexpr Need refined{"balance.refine", "true", "refinement", [](C c) { return c.balance.refine; }};
constexpr Need assigned_first{"balance.strategy", "hierarchical",
                              "samples that are assigned before they are packed",
                              [](C c) { return c.balance.strategy == Strategy::hierarchical; }};
constexpr Need assigned_first_or_flexible{
    "balance.strategy", "hierarchical, or mesh.cp: flexible",
    "samples that are assigned before they are packed",
    [](C c) { return c.balance.strategy == Strategy::hierarchical || c.flexible_cp; }};
constexpr Need meeting{"balance.strategy", "grid", "groups that meet at every micro-batch",
                       [](C c) { return c.balance.strategy == Strategy::grid; }};
constexpr Need equal_speeds{"balance.speeds", "equal", "ranks that are alike",
                            [](C c) { return c.balance.speeds.empty(); }};
constexpr Need local{"balance.placement", "locality", "parts that go to those that hold them",
                     [](C c) { return c.balance.placement == PlacementRule::locality; }};
constexpr Need no_tolerance{"balance.placement_tolerance", "0", "samples that stay where they are assigned",
                            [](C c) { return c.balance.placement_tolerance == 0; }};
constexpr Need fixed_cost{"balance.cost", "tokens, flops-7b or a model's", "a cost that stays as it is",
                          [](C c) { return !c.balance.measured; }};
constexpr Need cost_of_lengths{"balance.cost", "without encoder", "a cost that follows from lengths",
                               [](C c) { return !c.balance.encoder; }};
constexpr Need cut_first{"batch.keep_mini_batch", "true, or batch.mini_batches: 1",
                         "mini-batches that are cut first",
                         [](C c) { return c.mini_batches.keep || c.mini_batches.count == 1; }};
constexpr Need own_packing{"micro_batch.packing", "auto", "packing that is not named",
                           [](C c) { return !c.micro_batch.packing; }};
constexpr Need fewest{"micro_batch.count", "fewest", "as few micro-batches as there can be",
                      [](C c) { return c.micro_batch.count == CountRule::fewest; }};
constexpr Need own_alignment{"pack.align", "auto", "an alignment that follows from the mesh",
                             [](C c) { return !c.names_alignment; }};
constexpr Need one_size{"mesh.cp", "a number", "groups of one size", [](C c) { return !c.flexible_cp; }};
constexpr Need own_sizes{"mesh.cp", "flexible", "groups of their own sizes",
                         [](C c) { return c.flexible_cp; }};
constexpr Need alone{"prefix.share", "false", "samples that stand alone",
                     [](C c) { return c.sharing == PrefixSharing::none; }};
constexpr Need cap_of_a_rank{"micro_batch.max_tokens_per_rank", "",
                             "Set it in place of micro_batch.max_tokens",
                             [](C c) { return c.has_cap_of_a_rank; }};
constexpr Need outlier_length{"batch.outlier_length", "", "Set it to the tokens above which a sample is one",
                              [](C c) { return c.delay.longer_than.has_value(); }};
constexpr Need companions{"batch.outlier_companions", "", "Set it to the number of DP ranks",
                          [](C c) { return c.delay.companions.has_value(); }};
constexpr Need own_reading{"source.kind", "any but embedded", "samples that Evenkeel reads",
                           [](C c) { return c.are_samples_read; }};
constexpr Need lines{"source.kind", "jsonl", "JSON lines", [](C c) { return c.are_lines_read; }};
constexpr Need whole_rows{"field.layers", "null", "rows that are not split by layers",
                          [](C c) { return !c.field.layers; }};
constexpr Need narrow_wire{"field.wire", "narrow", "integers that travel so",
                           [](C c) { return c.field.wire == FieldWidth::narrow; }};
constexpr Need own_values{"field.share", "none", "values of each sample's own",
                          [](C c) { return c.field.share == FieldSharing::none; }};

// What needs others. By default none is used.

constexpr Feature max_cp{"mesh.max_cp", "", "mesh.max_cp: auto", [](C c) { return c.names_largest_group; }};
constexpr Feature any_sizes{"mesh.context_sizes", "any", "mesh.context_sizes: powers-of-two",
                            [](C c) { return c.context_sizes == ContextSizes::any; }};
constexpr Feature flexible{"mesh.cp", "flexible", "mesh.cp: a number", [](C c) { return c.flexible_cp; }};
constexpr Feature flexible_pipeline{"mesh.cp", "flexible with mesh.pp above 1", "mesh.cp: a number",
                                    [](C c) { return c.flexible_cp && c.pp > 1; }};
constexpr Feature flexible_counts{
    "mesh.cp", "flexible with micro_batch.min_count or multiple_of above 1", "mesh.cp: a number",
    [](C c) { return c.flexible_cp && (c.micro_batch.min_count > 1 || c.count_multiple > 1); }};
constexpr Feature grid{"balance.strategy", "grid", "balance.strategy: hierarchical",
                       [](C c) { return c.balance.strategy == Strategy::grid; }};
constexpr Feature speeds{"balance.speeds", "", "balance.speeds: equal",
                         [](C c) { return !c.balance.speeds.empty(); }};
constexpr Feature encoder{"balance.cost", "with an encoder", "balance.cost without encoder",
                          [](C c) { return c.balance.encoder.has_value(); }};
constexpr Feature measured{"balance.cost", "measured", "another cost",
                           [](C c) { return c.balance.measured.has_value(); }};
constexpr Feature tolerance{"balance.placement_tolerance", "above 0", "balance.placement_tolerance: 0",
                            [](C c) { return c.balance.placement_tolerance > 0; }};
constexpr Feature packing{"micro_batch.packing", "", "micro_batch.packing: auto",
                          [](C c) { return c.micro_batch.packing.has_value(); }};
constexpr Feature fastest{"micro_batch.count", "fastest", "micro_batch.count: fewest",
                          [](C c) { return c.micro_batch.count == CountRule::fastest; }};
constexpr Feature schedule{"micro_batch.order", "schedule", "another order",
                           [](C c) { return c.micro_batch.order == MicroBatchOrder::schedule; }};
constexpr Feature shapes{"micro_batch.shapes", "", "micro_batch.shapes: null",
                         [](C c) { return c.micro_batch.shapes.has_value(); }};
constexpr Feature sharing{"prefix.share", "true or tree", "prefix.share: false",
                          [](C c) { return c.sharing != PrefixSharing::none; }};
constexpr Feature mindspeed_loss{"loss.aggregation", "mindspeed-rl", "another aggregation",
                                 [](C c) { return c.loss == LossAggregation::mindspeed_rl; }};
constexpr Feature delay{"batch.delay_outliers", "", "batch.delay_outliers: 0",
                        [](C c) { return c.delay.is_on(); }};
constexpr Feature stage{"field.stage", "first or all", "field.stage: last",
                        [](C c) { return c.field.stage != FieldStages::last; }};
constexpr Feature narrow{"field.hand_out", "narrow", "field.hand_out: as-brought",
                         [](C c) { return c.field.hand_out == FieldWidth::narrow; }};
constexpr Feature cut_by{"field.cut_by", "", "field.cut_by: null",
                         [](C c) { return !c.field.cut_by.empty(); }};
constexpr Feature read_as{"field.read_as", "", "field.read_as: null",
                          [](C c) { return c.field.read_as.has_value(); }};

constexpr Requirement table[] = {
    {max_cp, own_sizes, "else all groups have mesh.cp ranks"},
    {any_sizes, own_sizes, "else all groups have mesh.cp ranks"},

    {flexible, cap_of_a_rank, "it is the cap then: a group of any size holds so many tokens a rank"},
    {flexible, packed, "groups are chosen as micro-batches are packed"},
    {flexible, own_planning, "presets assign samples to DP ranks, and not to groups"},
    {flexible, own_algorithm, "groups are chosen by an algorithm of their own"},
    {flexible, free_counts, "a group of many ranks may run a single sample"},
    {flexible, refined, "it is a part of how groups are chosen"},
    {flexible, cut_first, "no DP rank has a share of the whole step that could be cut"},
    {flexible, no_tolerance, "where a sample is follows from its group"},
    {flexible, own_packing, "groups have a packing of their own"},
    {flexible, fewest, "groups have counts of their own"},
    {flexible, own_alignment, "it depends on the size of the group"},
    {flexible_pipeline, meeting, "the stages of a pipeline do"},
    {flexible_counts, meeting, "else each rank has any number of micro-batches"},
    {mindspeed_loss, one_size,
     "it weighs a sample by the samples of its rank, and the ranks of a group have different ones"},

    {grid, packed, "they are packed from all samples at once"},
    {grid, own_planning, "presets assign samples before they pack them"},
    {grid, own_algorithm, "it lays out micro-batches, which is an algorithm of its own"},
    {grid, free_counts, "what it lays out is micro-batches, whatever they hold"},
    {grid, cut_first, "no DP rank has a share of the whole step that could be cut"},

    {speeds, assigned_first_or_flexible, "a grid makes equal micro-batches for ranks that meet at each"},
    {speeds, own_planning, "presets know of no speeds"},
    {speeds, own_algorithm, "speeds have an algorithm of their own"},
    {speeds, refined, "it is a part of how work is shared out by speed"},
    {speeds, free_counts, "faster ranks get more samples"},
    {speeds, back_to_back, "all DP ranks pad to the same lengths, fast or slow"},

    {encoder, assigned_first, "an encoder's work is done before micro-batches begin"},
    {encoder, one_size, "each DP rank encodes for itself"},
    {encoder, own_planning, "presets know of no encoder"},
    {encoder, own_algorithm, "two kinds of work have an algorithm of their own"},
    {encoder, refined, "it is a part of how two kinds of work are shared out"},
    {encoder, free_counts, "samples change places by their two kinds of work alone"},
    {encoder, equal_speeds, "two kinds of work are shared out over equal ranks"},
    {encoder, no_tolerance, "moving them would count the model's work alone"},
    {encoder, back_to_back, "all DP ranks pad to the same lengths, which an encoder knows nothing of"},

    {measured, own_planning, "presets have costs of their own"},

    {tolerance, local, "only who holds a sample is a reason to move it"},
    {tolerance, assigned_first, "a sample of a grid cannot change places without its micro-batch"},
    {tolerance, own_planning, "presets fix which DP rank has what"},
    {tolerance, by_work, "only work may change hands"},
    {tolerance, back_to_back, "all DP ranks pad to the same lengths"},
    {tolerance, cut_first, "each mini-batch is balanced by itself"},

    {packing, packed, "other micro-batches are not packed"},
    {packing, own_planning, "presets pack as their systems do"},
    {packing, assigned_first, "a grid has a packing of its own"},

    {fastest, packed, "other micro-batches are as many as their samples ask for"},
    {fastest, own_planning, "presets count as their systems do"},
    {fastest, assigned_first, "a grid has as many columns as it needs"},
    {fastest, own_packing, "it balances at every count it tries, which packing by name does not"},

    {schedule, own_planning, "presets have orders of their own"},

    {shapes, back_to_back, "padded ones have a shape of their own"},
    {shapes, own_planning, "presets do not keep the cap"},
    {shapes, alone, "nothing says how many segments shared prefixes come to"},
    {shapes, one_size, "what a rank computes depends on the size of its group"},

    {sharing, back_to_back, "shared tokens stand in several samples"},
    {sharing, own_planning, "presets plan every sample alone"},

    {delay, outlier_length, "nothing else says which samples are outliers"},
    {delay, companions, "nothing else says how many outliers come together"},
    {delay, own_reading, "what the program brings for a step comes in it"},
    {delay, one_size,
     "among groups of their own sizes no DP rank waits for a long sample: a group of its own takes that"},
    {delay, alone,
     "it would part samples that share a prefix: steps are arranged by lengths alone, before samples are "
     "read and it is known which of them share tokens"},
    {delay, fixed_cost,
     "steps are arranged by what samples cost, and a measured cost changes with every run: steps would hold "
     "other samples each time"},
    {delay, cost_of_lengths,
     "an encoder's work is counted by rows of a field, which are not known before a step is read"},
    {delay, equal_speeds, "what steps hold would depend on the machines of one mesh"},

    {stage, whole_rows, "layers say which stage is sent what"},
    {narrow, narrow_wire, "the smallest type is found for the way"},
    {cut_by, own_values, "rows that lie once for all ranks are not cut"},
    {read_as, lines, "it says what these have"},
};

}  // namespace
}  // namespace evenkeel::requirement_table

namespace evenkeel {
namespace {

using requirement_table::table;

/// What is added to a key, rather than its value: "with an encoder".
bool is_addition(std::string_view value) {
  return value.starts_with("with");
}

std::string setting(std::string_view key, std::string_view value) {
  if (value.empty()) return std::string(key);
  return std::string(key) + (is_addition(value) ? " " : ": ") + std::string(value);
}

/// The key as it is written: of a field in its entry.
std::string written(std::string_view text, const Choices& choices) {
  constexpr std::string_view section = "field.";
  if (choices.field_name.empty() || !text.starts_with(section)) return std::string(text);
  return "fields." + std::string(choices.field_name) + "." + std::string(text.substr(section.size()));
}

/// The first requirement that is not met; nullptr where all are.
const Requirement* first_broken(const Choices& choices) {
  const auto* const found = std::ranges::find_if(table, [&](const Requirement& requirement) {
    return requirement.feature.is_used(choices) && !requirement.need.is_met(choices);
  });
  return found == std::end(table) ? nullptr : found;
}

[[noreturn]] void refuse(const Requirement& requirement, const Choices& choices) {
  const auto& [feature, need, why] = requirement;
  const std::string since = ", since " + std::string(why);
  if (need.value.empty()) {
    throw ConfigError(written(need.key, choices),
                      "is not set, and " + setting(feature.key, feature.value) + " needs it" + since,
                      std::string(need.words));
  }
  throw ConfigError(
      written(feature.key, choices),
      std::string(feature.value) + (feature.value.empty() ? "" : " ") + "needs " + std::string(need.words) +
          since,
      "Set " + setting(written(need.key, choices), need.value) + ", or " + written(feature.instead, choices));
}

}  // namespace

Choices choices_of(const PlanSettings& settings) {
  Choices choices;
  choices.balance = settings.balance;
  choices.micro_batch = settings.micro_batch;
  choices.mini_batches = settings.mini_batches;
  choices.sharing = settings.sharing;
  choices.flexible_cp = settings.flexible.has_value();
  choices.pp = settings.pp;
  choices.count_multiple = settings.count_multiple();
  choices.names_alignment = settings.align.has_value();
  if (settings.flexible) choices.context_sizes = settings.flexible->sizes;
  return choices;
}

std::span<const Requirement> requirements() {
  return table;
}

bool go_together(const Choices& choices) {
  return first_broken(choices) == nullptr;
}

void require_together(const Choices& choices) {
  const Requirement* broken = first_broken(choices);
  if (broken != nullptr) refuse(*broken, choices);
}

std::string needs_of(std::string_view key) {
  std::string text;
  const Feature* last = nullptr;
  for (const auto& [feature, need, why] : table) {
    if (feature.key != key) continue;
    if (last != nullptr && last->value == feature.value) {
      text += "; ";
    } else {
      text += last == nullptr ? "" : ". ";
      text += feature.value.empty()        ? "Where it is set, it needs "
              : is_addition(feature.value) ? "W" + std::string(feature.value.substr(1)) + " it needs "
                                           : std::string(feature.value) + " needs ";
    }
    text += setting(need.key, need.value);
    last = &feature;
  }
  return text.empty() ? text : text + ".";
}

std::string requirements_markdown() {
  std::string text = "| setting | needs | since |\n|---|---|---|\n";
  for (const auto& [feature, need, why] : table) {
    text += "| `" + setting(feature.key, feature.value) + "` | `" + setting(need.key, need.value) + "` | " +
            std::string(why) + " |\n";
  }
  return text;
}

}  // namespace evenkeel
