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

/// The entries' groups by uid, prompt length and prompt (its hash), in the order of their first entries;
/// entries that share nothing have a group each. Trees with one level, `[prompt | response 1 | ...]`, where
/// the last `ahead` tokens of the prompt stand before each response.
[[nodiscard]] std::vector<SharedGroup> prompt_groups(const LengthTable& table, std::int64_t ahead = 0);

/// The entries with each uid, in the order of their first entries. O(size of the table).
[[nodiscard]] std::vector<std::vector<EntryId>> entries_by_uid(const LengthTable& table);

/// The trees of the samples with each uid, in the order of their first entries. `tokens` are those of every
/// entry, and `ahead` as in PrefixTree::of_tokens. O(total length of the samples).
[[nodiscard]] std::vector<SharedGroup> prefix_trees(const LengthTable& table,
                                                    std::span<const std::span<const std::int64_t>> tokens,
                                                    std::int64_t ahead = 0);

/// Throws InputError unless every entry is a sample of exactly one group. O(size of the table).
void require_cover(const LengthTable& table, std::span<const SharedGroup> groups);

/// The work of a tree: every segment attends to the tokens before it and to itself, once.
[[nodiscard]] Cost cost_of_tree(const CostModel& model, const PrefixTree& tree);

/// Why samples repeat tokens that they could share.
struct RepeatReason {
  const char* key;    ///< in reports
  const char* words;  ///< what they are repeated for
};
/// First the limits of a micro-batch, which split groups; where micro-batches are fixed, the one on samples
/// is micro_batch.size or max_samples, whichever is less.
inline constexpr std::array<RepeatReason, 5> repeat_reasons{{
    {"max_tokens", "to keep micro_batch.max_tokens"},
    {"max_samples", "to keep micro_batch.max_samples"},
    {"max_rows", "to keep micro_batch.max_rows"},
    {"predict_ahead", "to keep pack.predict_ahead"},
    {"equal_work", "for micro-batches of equal work"},
}};
/// Tokens by why they are repeated, in the order of `repeat_reasons`: those that sub-groups hold beside
/// others of their group, by the first limit that a sub-group would break together with the one before it;
/// those in front of branches that must be followed by one token each (see repeated_ahead); and those that
/// ranks compute in place of waiting for each other at a micro-batch.
using RepeatedTokens = std::array<std::int64_t, repeat_reasons.size()>;

/// Tokens that the samples of a group repeat in front of branches, since only rows that are followed by the
/// same `ahead` tokens are shared. Those of samples that share no row are not counted, except prompts.
[[nodiscard]] std::int64_t repeated_ahead(const LengthTable& table, const SharedGroup& group,
                                          const PlanSettings& settings);

/// A group as it is packed.
struct SplitGroup {
  std::vector<SharedGroup> parts;  ///< the group itself where it fits
  RepeatedTokens repeated{};
};

/// This group, or sub-groups of it that fit under the settings' alignment and limits (see make_units). Throws
/// LimitError that names the first sample that does not fit on its own.
[[nodiscard]] SplitGroup split_to_fit(const LengthTable& table, SharedGroup group,
                                      const PlanSettings& settings);

/// The samples of a group with these numbers, ascending, as a group. One prompt with its responses stays in
/// that form. Precondition: a sample that is alone fits under the cap.
[[nodiscard]] SharedGroup sub_group(const LengthTable& table, const SharedGroup& group,
                                    std::span<const std::int64_t> samples, const PlanSettings& settings);

}  // namespace evenkeel
