#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/pack/prefix/tree.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// Samples that share tokens: the tree's sample i is table entry entries[i].
struct SharedGroup {
  std::vector<EntryId> entries;
  PrefixTree tree;

  friend bool operator==(const SharedGroup&, const SharedGroup&) = default;
};

/// Returns the groups of entries with equal uid, prompt length and prompt (its hash), in the order of their
/// first entries; entries that share nothing have separate groups. The trees have one level, `[prompt |
/// response 1 | ...]`; the last `ahead` tokens of the prompt are repeated before each response.
[[nodiscard]] std::vector<SharedGroup> prompt_groups(const LengthTable& table, std::int64_t ahead = 0);

/// Returns the entries with each uid, in the order of their first entries. O(size of the table).
[[nodiscard]] std::vector<std::vector<EntryId>> entries_by_uid(const LengthTable& table);

/// Returns the trees of the samples with each uid, in the order of their first entries. `tokens` contains the
/// tokens of every entry; see PrefixTree::from_tokens for `ahead`. O(total length of the samples).
[[nodiscard]] std::vector<SharedGroup> prefix_trees(const LengthTable& table,
                                                    std::span<const std::span<const std::int64_t>> tokens,
                                                    std::int64_t ahead = 0);

/// Throws InputError unless every entry is a sample of exactly one group. O(size of the table).
void require_each_entry_once(const LengthTable& table, std::span<const SharedGroup> groups);

/// Returns the work of a tree: every segment attends to the tokens before it and to itself, once.
[[nodiscard]] Cost cost_of_tree(const CostModel& model, const PrefixTree& tree);

/// A reason why samples repeat tokens that they could share.
struct RepeatReason {
  const char* key;    ///< used in reports
  const char* words;  ///< purpose of the repetition
};
/// The limits of a micro-batch, which split groups, come first. If micro-batches are fixed, the limit on
/// samples is micro_batch.size or max_samples, whichever is smaller.
inline constexpr std::array<RepeatReason, 5> repeat_reasons{{
    {"max_tokens", "to keep micro_batch.max_tokens"},
    {"max_samples", "to keep micro_batch.max_samples"},
    {"max_rows", "to keep micro_batch.max_rows"},
    {"predict_ahead", "to keep pack.predict_ahead"},
    {"equal_work", "for micro-batches of equal work"},
}};
/// Numbers of repeated tokens by reason, in the order of `repeat_reasons`: tokens that sub-groups have in
/// addition to others of their group, by the first limit that a sub-group would exceed together with the
/// preceding one; tokens before branches that must be followed by a token of each branch (see
/// repeated_ahead); and tokens that ranks compute instead of waiting for each other at a micro-batch.
using RepeatedTokens = std::array<std::int64_t, repeat_reasons.size()>;

/// Returns the number of tokens that the samples of a group repeat before branches, since only rows that are
/// followed by the same predict_ahead tokens are shared. Samples that do not share any row are not counted,
/// except for prompts.
[[nodiscard]] std::int64_t repeated_ahead(const LengthTable& table, const SharedGroup& group,
                                          const PlanSettings& settings);

/// A group in the form in which it is packed.
struct SplitGroup {
  std::vector<SharedGroup> parts;  ///< the group itself if it fits
  RepeatedTokens repeated{};
};

/// Returns this group, or sub-groups of it that fit under the settings' alignment and limits (see
/// make_units). Precondition: every sample fits by itself.
[[nodiscard]] SplitGroup split_to_fit(const LengthTable& table, SharedGroup group,
                                      const PlanSettings& settings);

/// Returns the samples of a group with these numbers (ascending) as a group. A prompt with its responses
/// keeps that form. Precondition: if there is only one sample, it fits under the cap.
[[nodiscard]] SharedGroup sub_group(const LengthTable& table, const SharedGroup& group,
                                    std::span<const std::int64_t> samples, const PlanSettings& settings);

}  // namespace evenkeel
