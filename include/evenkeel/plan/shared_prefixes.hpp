#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/cost_model.hpp"
#include "evenkeel/pack/prefix_tree.hpp"
#include "evenkeel/pack/prefix_tree_attention.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// Samples that share tokens: the tree's sample i is table entry entries[i].
struct SharedGroup {
  std::vector<std::int64_t> entries;
  PrefixTree tree;

  friend bool operator==(const SharedGroup&, const SharedGroup&) = default;
};

/// What is balanced, capped and packed as a whole when prefixes are shared: a group, or as much of one as
/// fits under the cap.
struct Atom {
  SharedGroup group;
  std::int64_t aligned_rows = 0;  ///< over the whole CP group
  Cost cost = 0;                  ///< every shared token and its attention once

  friend bool operator==(const Atom&, const Atom&) = default;
};

/// The groups of these entries, by uid, prompt length and prompt (its hash), in the order of their first
/// entries: an entry each where nothing is shared. Trees of one level, `[prompt | response 1 | ...]`.
[[nodiscard]] std::vector<SharedGroup> prompt_groups(const LengthTable& table,
                                                     std::span<const std::int64_t> entries);

/// The entries of each uid, in the order of their first entries. O(size of the table).
[[nodiscard]] std::vector<std::vector<std::int64_t>> entries_by_uid(const LengthTable& table);

/// The trees that the samples of each uid make, in the order of their first entries. `tokens` are those of
/// every entry. Time in the order of the samples' total length.
[[nodiscard]] std::vector<SharedGroup> prefix_trees(const LengthTable& table,
                                                    std::span<const std::span<const std::int64_t>> tokens);

/// Throws InputError unless every entry is a sample of exactly one group. O(size of the table).
void require_cover(const LengthTable& table, std::span<const SharedGroup> groups);

/// The work of a tree: every segment attends to what is in front of it and to itself, once.
[[nodiscard]] Cost cost_of_tree(const CostModel& model, const PrefixTree& tree);

/// The atoms of groups under the settings' alignment, cap and max_samples. A group that does not fit is split
/// into sub-groups of neighbouring samples, each filled before the next is begun, which repeat what they
/// share. One prompt with its responses stays in that form, however few the responses. Deterministic. Throws
/// LimitError that names the first sample that does not fit on its own.
[[nodiscard]] std::vector<Atom> make_atoms(const LengthTable& table, std::vector<SharedGroup> groups,
                                           const PlanSettings& settings);

/// What sharing saves over all atoms, repeated prefixes of sub-groups counted.
[[nodiscard]] SharingSavings savings_of(std::span<const Atom> atoms);

}  // namespace evenkeel
