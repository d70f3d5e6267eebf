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

/// What decides whether settings go together: those of one pass, and what is known of the job around it. What
/// is not known is as by default, which goes with everything.
struct Choices {
  BalanceKeys balance{};
  MicroBatchKeys micro_batch{};
  MiniBatchSettings mini_batches{};
  PrefixSharing sharing = PrefixSharing::none;
  bool caps_paths = false;  ///< prefix.max_path_tokens
  SegmentSchedule schedule = SegmentSchedule::packed;
  bool caps_kept = false;          ///< prefix.max_kept_tokens
  std::int64_t predict_ahead = 0;  ///< pack.predict_ahead
  LossAggregation loss = LossAggregation::token_mean;
  DelaySettings delay{};
  bool flexible_cp = false;          ///< mesh.cp: flexible
  bool names_largest_group = false;  ///< mesh.max_cp
  int cp = 1;
  int pp = 1;
  std::int64_t count_multiple = 1;   ///< PlanSettings::count_multiple
  bool names_alignment = false;      ///< pack.align
  bool has_cap_of_a_rank = true;     ///< micro_batch.max_tokens_per_rank
  bool are_samples_read = true;      ///< rather than brought by the program, step by step
  bool are_lines_read = true;        ///< some source may have JSON lines
  bool are_samples_awaited = false;  ///< source.kind: stream
  ScheduleSettings batch{};
  FilterSettings filter{};
  std::int64_t source_epochs = 1;
  FieldSettings field{};  ///< of a field that samples bring
  std::string_view field_name = {};
};

/// What these settings choose, which know nothing of the job around.
[[nodiscard]] Choices choices_of(const PlanSettings& settings);

/// A setting that does not go with all others.
struct Feature {
  std::string_view key;      ///< "balance.strategy"
  std::string_view value;    ///< "grid"; empty where it is enough that the key is set
  std::string_view instead;  ///< what to set to do without it: "balance.strategy: hierarchical"
  bool (*is_used)(const Choices& choices);
};

/// What a feature needs of another key.
struct Need {
  std::string_view key;    ///< "micro_batch.mode"
  std::string_view value;  ///< what it is to be: "packed or fixed"; empty where it is to be set at all
  std::string_view words;  ///< what that means: "sequences back to back"; of a value to be set, how
  bool (*is_met)(const Choices& choices);
};

/// A feature is refused if its need is not met.
struct Requirement {
  Feature feature;
  Need need;
  std::string_view why;  ///< what follows "since"
};

/// A strategy or another feature, and the settings that do not belong to it.
struct Exclusion {
  Feature feature;
  std::span<const Feature> others;
  std::string_view why;  ///< what follows "since"
};

/// The tables of all requirements and exclusions: settings are refused by them, and the pages of keys are
/// generated from them. They live as long as the program.
[[nodiscard]] std::span<const Requirement> requirements();
[[nodiscard]] std::span<const Exclusion> exclusions();

/// Whether all requirements are met and nothing is excluded.
[[nodiscard]] bool go_together(const Choices& choices);

/// The strategy for groups of different sizes, where it is automatic: the one that goes with everything else,
/// or that for the trainer's way to meet. Throws ConfigError where nobody said what that is, which would hang
/// a trainer that meets at every micro-batch. Any other strategy as it is.
[[nodiscard]] Strategy strategy_of_groups(Choices choices);

/// The strategy that the choices make, with groups of at most `largest_group` ranks if they have their own
/// sizes. Precondition: the choices go together, and name a strategy for such groups.
[[nodiscard]] StrategySettings strategy_for(const Choices& choices, int largest_group);

/// Throws ConfigError for the first requirement that is not met, or the first setting that is excluded. It
/// names the feature's key, the key to be set or the key that does not belong, and says why and what to set.
void require_together(const Choices& choices);

/// The requirements of a key and what excludes it, as sentences: "fastest does not go with balance.preset;
/// micro_batch.mode: padded." Empty if the key goes with everything.
[[nodiscard]] std::string rules_of(std::string_view key);

/// All requirements and exclusions as tables in Markdown, with the reasons.
[[nodiscard]] std::string requirements_markdown();

}  // namespace evenkeel
