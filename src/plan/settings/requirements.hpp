#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/plan/batch_schedule.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/loss.hpp"
#include "evenkeel/plan/outlier_delay.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// The choices that determine whether settings are compatible: the settings of one pass, and the known
/// properties of its job. Unknown properties have their default values, which are compatible with everything.
struct Choices {
  BalanceKeys balance{};
  MicroBatchKeys micro_batch{};
  MiniBatchSettings mini_batches{};
  PrefixSharing sharing = PrefixSharing::none;
  bool caps_paths = false;  ///< whether prefix.max_path_tokens is set
  SegmentSchedule schedule = SegmentSchedule::packed;
  bool caps_kept_tokens = false;   ///< whether prefix.max_kept_tokens is set
  std::int64_t predict_ahead = 0;  ///< pack.predict_ahead
  LossAggregation loss = LossAggregation::token_mean;
  DelaySettings delay{};
  bool flexible_cp = false;         ///< whether mesh.cp is flexible
  bool has_max_group_size = false;  ///< whether mesh.max_cp is set
  int cp = 1;
  int pp = 1;
  std::int64_t count_multiple = 1;  ///< PlanSettings::count_multiple
  bool has_alignment = false;       ///< whether pack.align is set
  Delivery delivery = Delivery::packed;
  bool has_cap_per_rank = true;  ///< whether micro_batch.max_tokens_per_rank is set
  /// Whether samples come from sources; false if the program supplies them step by step.
  bool are_samples_read = true;
  bool are_lines_read = true;        ///< whether a source may have JSON lines
  bool are_samples_awaited = false;  ///< whether source.kind is stream
  ScheduleSettings batch{};
  FilterSettings filter{};
  std::int64_t source_epochs = 1;
  FieldSettings field{};  ///< settings of one field of the samples
  std::string_view field_name = {};
};

/// Returns the choices made by these settings. Properties of the job, which the settings do not have, keep
/// their defaults.
[[nodiscard]] Choices choices_of(const PlanSettings& settings);

/// A setting that needs or excludes some other settings.
struct Feature {
  std::string_view key;    ///< key of the setting, such as "balance.strategy"
  std::string_view value;  ///< value, such as "grid", or nested key, such as ".encoder"; empty for any value
  /// Remedy: a setting such as "balance.strategy: hierarchical", "KEY to another value", or "remove KEY".
  std::string_view instead;
  bool (*is_used)(const Choices& choices);
};

/// A setting of another key that a feature needs.
struct Need {
  std::string_view key;    ///< key of the needed setting, such as "micro_batch.mode"
  std::string_view value;  ///< the needed value: "packed or fixed"; empty if the key only has to be set
  std::string_view words;  ///< meaning of the value: "sequences back to back"; if `value` is empty, a hint
                           ///< on how to set the key
  bool (*is_met)(const Choices& choices);
};

/// A feature, and a setting that it needs. Settings that use the feature without the needed setting are
/// rejected.
struct Requirement {
  Feature feature;
  Need need;
  std::string_view why;  ///< the reason, worded to follow "since"
};

/// A strategy or another feature, and the settings that cannot be combined with it.
struct Exclusion {
  Feature feature;
  std::span<const Feature> others;
  std::string_view why;  ///< the reason, worded to follow "since"
};

/// Return the tables of all requirements and all exclusions. Settings are checked against these tables, and
/// the documentation of keys is generated from them. The tables exist as long as the program runs.
[[nodiscard]] std::span<const Requirement> requirements();
[[nodiscard]] std::span<const Exclusion> exclusions();

/// Returns whether all requirements are met and nothing is excluded.
[[nodiscard]] bool are_compatible(const Choices& choices);

/// Replaces an automatic balance.strategy if groups have different sizes. Returns the only strategy,
/// hierarchical or grid, that is compatible with the other choices, or hierarchical if both or neither are.
/// Throws ConfigError if both are compatible and balance.meet is not set, since a wrong guess would hang a
/// trainer whose ranks synchronize at every micro-batch. If the strategy is not automatic or groups have
/// equal sizes, returns balance.strategy unchanged.
[[nodiscard]] Strategy resolve_strategy(Choices choices);

/// Returns the settings of the chosen strategy, with groups of at most `largest_group` ranks if groups have
/// different sizes. Preconditions: the choices are compatible; if groups have different sizes,
/// balance.strategy is not automatic.
[[nodiscard]] StrategySettings strategy_for(const Choices& choices, int largest_group);

/// Throws ConfigError for the first requirement that is not met, or the first setting that is excluded. The
/// error names the key of the feature, or the key to be set or removed, with the reason and the remedy.
void require_compatible(const Choices& choices);

/// Returns the requirements of a key and the features that exclude it (Exclusion::others), as sentences:
/// "fastest cannot be combined with balance.preset; micro_batch.mode: padded." Empty if there are none. The
/// settings that the key itself excludes are not listed.
[[nodiscard]] std::string rules_of(std::string_view key);

/// Returns all requirements and exclusions as Markdown tables, with the reasons.
[[nodiscard]] std::string requirements_markdown();

}  // namespace evenkeel
