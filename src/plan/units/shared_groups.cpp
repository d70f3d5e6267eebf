#include "evenkeel/plan/shared_groups.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/id_range.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/prefix/fewest_repeats.hpp"
#include "pack/prefix/tree_split.hpp"
#include "plan/units/row_caps.hpp"

namespace evenkeel {
namespace {

using Entries = std::vector<EntryId>;

/// Returns the length of the prefix of the prompt in which each row is followed by at least `ahead` more
/// prompt tokens. Only these rows are shared.
std::int64_t shared_prompt_length(const SampleShape& sample, std::int64_t ahead) {
  return std::max(sample.prompt - ahead, std::int64_t{0});
}

/// Returns the tree of one prompt and its responses. A prompt with a single response still has two segments.
PrefixTree make_one_level_tree(const LengthTable& table, std::span<const EntryId> entries,
                               std::int64_t ahead) {
  std::vector<TreeNode> nodes{{-1, shared_prompt_length(table[entries.front()].shape, ahead)}};
  nodes.reserve(entries.size() + 1);
  std::vector<std::int64_t> ends;
  ends.reserve(entries.size());
  for (const EntryId entry : entries) {
    ends.push_back(std::ssize(nodes));
    const SampleShape& sample = table[entry].shape;
    nodes.push_back({0, sample.length() - shared_prompt_length(sample, ahead)});
  }
  return {nodes, std::move(ends)};
}

bool has_one_level(const LengthTable& table, const SharedGroup& group, std::int64_t ahead) {
  return group.tree == make_one_level_tree(table, group.entries, ahead);
}

/// Makes a group of one sample with a single segment, so that prompt and response are aligned together.
SharedGroup make_whole_sample_group(const LengthTable& table, EntryId entry) {
  const std::vector<TreeNode> node{{-1, table[entry].shape.length()}};
  return {{entry}, PrefixTree(node, {0})};
}

/// Returns the limits on a part of a group except the limit on tokens, in the order of `repeat_reasons`: the
/// number of samples, then the rows of each capped field.
std::vector<PartLimit> part_limits(std::span<const EntryId> entries, std::int64_t most_samples,
                                   std::span<const RowCap> caps) {
  std::vector<PartLimit> limits{{std::vector<std::int64_t>(entries.size(), 1), most_samples}};
  for (const RowCap& cap : caps) {
    PartLimit& of_field = limits.emplace_back(PartLimit{{}, cap.most});
    for (const EntryId entry : entries) of_field.sample_amounts.push_back(cap.rows[entry.index()]);
  }
  return limits;
}

/// Returns whether the samples together stay within all row caps of a micro-batch.
bool are_within_caps(std::span<const RowCap> caps, std::span<const EntryId> entries) {
  RowTotals rows(caps);
  for (const EntryId entry : entries) {
    if (!rows.has_room_for(entry)) return false;
    rows.add(entry);
  }
  return true;
}

/// Returns a prompt with its responses as a one-level tree. A single sample becomes one segment if it would
/// exceed `max_rows` with its prompt and response aligned separately.
SharedGroup make_prompt_group(const LengthTable& table, Entries entries, std::int64_t alignment,
                              std::int64_t max_rows, std::int64_t ahead) {
  PrefixTree tree = make_one_level_tree(table, entries, ahead);
  if (entries.size() == 1 && aligned_rows(tree, alignment) > max_rows)
    return make_whole_sample_group(table, entries.front());
  return {std::move(entries), std::move(tree)};
}

/// A part of a group that exceeds a limit.
struct GroupPart {
  std::vector<std::int64_t> samples;  ///< positions of the samples in the whole group, ascending
  SharedGroup group;
  std::int64_t repeated = 0;       ///< number of tokens that earlier parts also have
  std::size_t exceeded_limit = 0;  ///< index of the limit that forced the cut; see SubTree
};

/// Splits a group that exceeds a limit into parts that stay within all limits.
class GroupSplit {
 public:
  GroupSplit(const LengthTable& table, const SharedGroup& group, const PlanSettings& settings,
             std::span<const RowCap> caps)
      : table_(table),
        group_(group),
        caps_(caps),
        alignment_(settings.alignment(settings.largest_group())),
        max_rows_(settings.cap(settings.largest_group())),
        max_samples_(settings.limits().max_items),
        ahead_(settings.predict_ahead),
        has_prompt_(has_one_level(table, group, ahead_)) {}

  /// Splits the group:
  /// 1. Cut it into parts of samples that are consecutive in depth-first order.
  /// 2. Join each part with an earlier part that shares tokens with it if the union stays within all limits.
  /// Afterwards, no two parts with common tokens can be joined within the limits, except by taking more rows.
  [[nodiscard]] SplitGroup split() const {
    const std::vector<PartLimit> limits = part_limits(group_.entries, max_samples_, caps_);
    SplitGroup split;
    for (GroupPart& part :
         join_parts(has_prompt_ ? split_into_response_runs(limits) : split_into_subtrees(limits))) {
      constexpr std::size_t rows = 2;  // index of "max_rows" in repeat_reasons
      split.repeated[std::min(part.exceeded_limit, rows)] += part.repeated;
      if (!part.samples.empty()) split.parts.push_back(std::move(part.group));
    }
    return split;
  }

 private:
  [[nodiscard]] SharedGroup make_group(std::span<const std::int64_t> samples) const {
    Entries entries;
    for (const std::int64_t sample : samples)
      entries.push_back(group_.entries[static_cast<std::size_t>(sample)]);
    if (has_prompt_) return make_prompt_group(table_, std::move(entries), alignment_, max_rows_, ahead_);
    return {std::move(entries), group_.tree.subtree(samples)};
  }

  /// Cuts the responses into runs that, with their prompt, stay within all limits.
  [[nodiscard]] std::vector<GroupPart> split_into_response_runs(std::span<const PartLimit> limits) const {
    OrderedSamples ordered;
    for (const EntryId entry : group_.entries) {
      ordered.lengths.push_back(table_[entry].shape.length());
      ordered.shared.push_back(ordered.shared.empty() ? 0
                                                      : shared_prompt_length(table_[entry].shape, ahead_));
    }
    std::vector<GroupPart> parts;
    for (const OrderedRun& run : runs_with_fewest_repeats(ordered, alignment_, max_rows_, limits)) {
      std::vector<std::int64_t> samples(static_cast<std::size_t>(run.samples.size()));
      std::iota(samples.begin(), samples.end(), run.samples.begin);
      SharedGroup group = make_group(samples);
      parts.push_back({std::move(samples), std::move(group), run.repeated, run.exceeded_limit});
    }
    return parts;
  }

  [[nodiscard]] std::vector<GroupPart> split_into_subtrees(std::span<const PartLimit> limits) const {
    std::vector<GroupPart> parts;
    for (SubTree& sub : split_tree(group_.tree, alignment_, max_rows_, limits)) {
      SharedGroup group{{}, std::move(sub.tree)};
      for (const std::int64_t sample : sub.samples)
        group.entries.push_back(group_.entries[static_cast<std::size_t>(sample)]);
      parts.push_back({std::move(sub.samples), std::move(group), sub.repeated, sub.exceeded_limit});
    }
    return parts;
  }

  /// Joins parts, which are in depth-first order. A part that was joined to an earlier one has no samples
  /// left; its `repeated` is reduced by the tokens that the two parts share.
  [[nodiscard]] std::vector<GroupPart> join_parts(std::vector<GroupPart> parts) const {
    std::vector<std::size_t> joins(parts.size());  // by part: the part that now holds its samples
    std::vector<std::int64_t> common;              // by part: tokens common to all its samples
    std::vector<std::int64_t> before;  // by part: tokens its first sample shares with the preceding sample
    for (const GroupPart& part : parts) {
      common.push_back(common_tokens(part.group.tree));
      before.push_back(part.repeated);
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      joins[p] = p;
      std::vector<bool> is_examined(p);
      std::int64_t shared = before[p];  // tokens shared by part p and the last sample of part i
      for (std::size_t i = p; i-- > 0 && shared > 0 && joins[p] == p;) {
        if (!is_examined[joins[i]] && try_join(parts[joins[i]], parts[p], shared)) joins[p] = joins[i];
        is_examined[joins[i]] = true;
        shared = std::min({shared, common[i], before[i]});
      }
    }
    return parts;
  }

  /// Returns the number of tokens common to all samples of a tree.
  [[nodiscard]] static std::int64_t common_tokens(const PrefixTree& tree) {
    const OrderedSamples samples = ordered_samples(tree);
    return samples.size() == 1 ? samples.lengths.front()
                               : *std::min_element(samples.shared.begin() + 1, samples.shared.end());
  }

  /// Moves the samples of `part` to `to`, which shares `shared` tokens with it, if the union stays within all
  /// limits and takes no more rows than the two parts. Returns whether it did.
  [[nodiscard]] bool try_join(GroupPart& to, GroupPart& part, std::int64_t shared) const {
    const PrefixTree& one = to.group.tree;
    const PrefixTree& other = part.group.tree;
    if (one.num_rows() + other.num_rows() - shared > max_rows_) return false;
    if (std::ssize(to.samples) + std::ssize(part.samples) > max_samples_) return false;
    std::vector<std::int64_t> samples;
    std::ranges::merge(to.samples, part.samples, std::back_inserter(samples));
    SharedGroup both = make_group(samples);
    const std::int64_t rows = aligned_rows(both.tree, alignment_);
    if (rows > max_rows_ || rows > aligned_rows(one, alignment_) + aligned_rows(other, alignment_))
      return false;
    if (!are_within_caps(caps_, both.entries)) return false;
    to.samples = std::move(samples);
    to.group = std::move(both);
    part.samples.clear();
    part.repeated -= shared;
    return true;
  }

  const LengthTable& table_;
  const SharedGroup& group_;
  std::span<const RowCap> caps_;
  std::int64_t alignment_;
  std::int64_t max_rows_;
  std::int64_t max_samples_;
  std::int64_t ahead_;
  bool has_prompt_;
};

}  // namespace

std::vector<SharedGroup> prompt_groups(const LengthTable& table, std::int64_t ahead) {
  std::map<std::tuple<std::uint64_t, std::int64_t, std::uint64_t>, std::size_t> numbers;
  std::vector<Entries> members;
  for (const EntryId entry : ids_below<EntryId>(table.size())) {
    const LengthEntry& sample = table[entry];
    const auto [found, is_new] =
        numbers.try_emplace({sample.shape.group, sample.shape.prompt, sample.prompt_hash}, members.size());
    if (is_new) members.emplace_back();
    members[found->second].push_back(entry);
  }
  std::vector<SharedGroup> groups;
  groups.reserve(members.size());
  for (Entries& group : members) {
    PrefixTree tree = make_one_level_tree(table, group, ahead);
    groups.push_back({std::move(group), std::move(tree)});
  }
  return groups;
}

std::vector<std::vector<EntryId>> entries_by_uid(const LengthTable& table) {
  std::unordered_map<std::uint64_t, std::size_t> numbers;
  std::vector<Entries> groups;
  for (const EntryId e : ids_below<EntryId>(table.size())) {
    const auto [found, is_new] = numbers.try_emplace(table[e].shape.group, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(e);
  }
  return groups;
}

std::vector<SharedGroup> prefix_trees(const LengthTable& table,
                                      std::span<const std::span<const std::int64_t>> tokens,
                                      std::int64_t ahead) {
  std::vector<SharedGroup> trees;
  for (Entries& group : entries_by_uid(table)) {
    std::vector<std::span<const std::int64_t>> samples;
    for (const EntryId entry : group) samples.push_back(tokens[entry.index()]);
    PrefixTree tree = PrefixTree::from_tokens(samples, ahead);
    trees.push_back({std::move(group), std::move(tree)});
  }
  return trees;
}

void require_each_entry_once(const LengthTable& table, std::span<const SharedGroup> groups) {
  std::vector<bool> seen(static_cast<std::size_t>(table.size()), false);
  std::int64_t count = 0;
  for (const SharedGroup& group : groups) {
    for (const EntryId entry : group.entries) {
      const bool is_known = entry >= EntryId{0} && entry < EntryId{table.size()};
      if (!is_known || seen[entry.index()]) {
        throw InputError(
            "prefix trees",
            "contain entry " + std::to_string(entry.value()) +
                (is_known ? " twice"
                          : ", but the table has " + format_plain_count(table.size(), "entry", "entries")),
            "Put every sample of the table into exactly one tree");
      }
      seen[entry.index()] = true;
      ++count;
    }
  }
  if (count == table.size()) return;
  throw InputError("prefix trees",
                   "contain " + std::to_string(count) + " of " + format_plain_count(table.size(), "sample"),
                   "Put every sample of the table into exactly one tree");
}

std::int64_t repeated_ahead(const LengthTable& table, const SharedGroup& group,
                            const PlanSettings& settings) {
  const std::span<const TreeSegment> segments = group.tree.segments();
  // At a branch with n children, n - 1 children repeat tokens of the first child. Below the branch, samples
  // of different children have only these tokens in common.
  std::int64_t branches = 0;
  for (const TreeSegment& segment : segments) branches += segment.parent == -1 ? 0 : 1;
  for (std::size_t s = 0; s < segments.size(); ++s)
    branches -= segments[s].subtree_end > static_cast<std::int64_t>(s) + 1 ? 1 : 0;
  const bool of_prompts = settings.sharing == PrefixSharing::prompts;
  const std::int64_t prompt = table[group.entries.front()].shape.prompt;
  return branches * (of_prompts ? std::min(settings.predict_ahead, prompt) : settings.predict_ahead);
}

Cost cost_of_tree(const CostModel& model, const PrefixTree& tree) {
  Cost cost = 0;
  for (const TreeSegment& segment : tree.segments())
    cost += model(segment.source().end) - model(segment.source().begin);
  return cost;
}

SplitGroup split_to_fit(const LengthTable& table, SharedGroup group, const PlanSettings& settings) {
  const int largest = settings.largest_group();
  const std::vector<RowCap> caps = row_caps_of(table, settings.micro_batch);
  if (aligned_rows(group.tree, settings.alignment(largest)) <= settings.cap(largest) &&
      std::ssize(group.entries) <= settings.limits().max_items && are_within_caps(caps, group.entries)) {
    SplitGroup whole;
    whole.parts.push_back(std::move(group));
    return whole;
  }
  return GroupSplit(table, group, settings, caps).split();
}

SharedGroup sub_group(const LengthTable& table, const SharedGroup& group,
                      std::span<const std::int64_t> samples, const PlanSettings& settings) {
  Entries entries;
  for (const std::int64_t sample : samples)
    entries.push_back(group.entries[static_cast<std::size_t>(sample)]);
  if (!has_one_level(table, group, settings.predict_ahead))
    return {std::move(entries), group.tree.subtree(samples)};
  const int largest = settings.largest_group();
  return make_prompt_group(table, std::move(entries), settings.alignment(largest), settings.cap(largest),
                           settings.predict_ahead);
}

}  // namespace evenkeel
