#include "evenkeel/plan/shared_groups.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/id_range.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/prefix/tree_split.hpp"
#include "plan/settings/checks.hpp"
#include "plan/units/row_caps.hpp"

namespace evenkeel {
namespace {

using Entries = std::vector<EntryId>;

/// One prompt and its responses; a prompt and its response stay two segments.
PrefixTree one_level_tree(const LengthTable& table, std::span<const EntryId> entries) {
  std::vector<TreeNode> nodes{{-1, table[entries.front()].shape.prompt}};
  nodes.reserve(entries.size() + 1);
  std::vector<std::int64_t> ends;
  ends.reserve(entries.size());
  for (const EntryId entry : entries) {
    ends.push_back(std::ssize(nodes));
    nodes.push_back({0, table[entry].shape.response});
  }
  return {nodes, std::move(ends)};
}

/// What a group of samples must fit under at most.
BinLimits largest_limits(const PlanSettings& settings) {
  BinLimits limits = settings.micro_batch.limits();
  limits.max_size = settings.cap(settings.largest_group());
  return limits;
}
std::int64_t largest_alignment(const PlanSettings& settings) {
  return settings.alignment(settings.largest_group());
}

bool has_one_level(const LengthTable& table, const SharedGroup& group) {
  return group.tree == one_level_tree(table, group.entries);
}

/// A sample that fits under the cap only while prompt and response are aligned together.
SharedGroup whole_sample(const LengthTable& table, EntryId entry) {
  const std::vector<TreeNode> node{{-1, table[entry].shape.length()}};
  return {{entry}, PrefixTree(node, {0})};
}

/// Runs of responses that fit under the caps together with their prompt.
std::vector<SharedGroup> split_responses(const LengthTable& table, const SharedGroup& group,
                                         const PlanSettings& settings, RowsTogether rows_of_fields) {
  const std::int64_t alignment = largest_alignment(settings);
  const BinLimits limits = largest_limits(settings);
  const std::int64_t prompt = align_up(table[group.entries.front()].shape.prompt, alignment);
  std::vector<SharedGroup> parts;
  Entries open;
  std::int64_t rows = prompt;
  const auto close = [&] {
    if (open.empty()) return;
    PrefixTree tree = one_level_tree(table, open);
    parts.push_back({std::exchange(open, {}), std::move(tree)});
    rows = prompt;
    rows_of_fields.clear();
  };
  for (const EntryId entry : group.entries) {
    const std::int64_t response = align_up(table[entry].shape.response, alignment);
    if (rows + response > limits.max_size || std::ssize(open) == limits.max_items ||
        !rows_of_fields.have_room_for(entry))
      close();
    if (prompt + response > limits.max_size) {
      parts.push_back(whole_sample(table, entry));
      continue;
    }
    open.push_back(entry);
    rows += response;
    rows_of_fields.add(entry);
  }
  close();
  return parts;
}

/// These samples of a group, by their numbers in its tree.
SharedGroup part_of(const SharedGroup& group, std::vector<std::int64_t> samples) {
  std::ranges::sort(samples);
  SharedGroup part{{}, group.tree.subtree(samples)};
  for (const std::int64_t sample : samples)
    part.entries.push_back(group.entries[static_cast<std::size_t>(sample)]);
  return part;
}

/// Parts of at most `most` samples whose rows fit under the caps, neighbours depth-first.
std::vector<SharedGroup> split_by_count(const SharedGroup& group, std::int64_t most, RowsTogether rows) {
  std::vector<SharedGroup> parts;
  std::vector<std::int64_t> open;
  for (const std::int64_t sample : group.tree.depth_first_samples()) {
    const EntryId entry = group.entries[static_cast<std::size_t>(sample)];
    if (std::ssize(open) == most || (!open.empty() && !rows.have_room_for(entry))) {
      parts.push_back(part_of(group, std::exchange(open, {})));
      rows.clear();
    }
    open.push_back(sample);
    rows.add(entry);
  }
  if (parts.empty()) return {group};
  parts.push_back(part_of(group, std::move(open)));
  return parts;
}

std::vector<SharedGroup> split_subtrees(const SharedGroup& group, const PlanSettings& settings,
                                        const RowsTogether& rows) {
  const BinLimits limits = largest_limits(settings);
  std::vector<SharedGroup> parts;
  for (const SharedGroup& few : split_by_count(group, limits.max_items, rows)) {
    for (SubTree& sub : split_tree(few.tree, largest_alignment(settings), limits.max_size)) {
      SharedGroup& part = parts.emplace_back(SharedGroup{{}, std::move(sub.tree)});
      for (const std::int64_t sample : sub.samples)
        part.entries.push_back(few.entries[static_cast<std::size_t>(sample)]);
    }
  }
  return parts;
}

bool fits(const SharedGroup& group, const PlanSettings& settings, RowsTogether rows) {
  const BinLimits limits = largest_limits(settings);
  for (const EntryId entry : group.entries) {
    if (!rows.have_room_for(entry)) return false;
    rows.add(entry);
  }
  return aligned_rows(group.tree, largest_alignment(settings)) <= limits.max_size &&
         std::ssize(group.entries) <= limits.max_items;
}

}  // namespace

std::vector<SharedGroup> prompt_groups(const LengthTable& table) {
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
    PrefixTree tree = one_level_tree(table, group);
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
                                      std::span<const std::span<const std::int64_t>> tokens) {
  std::vector<SharedGroup> trees;
  for (Entries& group : entries_by_uid(table)) {
    std::vector<std::span<const std::int64_t>> samples;
    for (const EntryId entry : group) samples.push_back(tokens[entry.index()]);
    PrefixTree tree = PrefixTree::of_tokens(samples);
    trees.push_back({std::move(group), std::move(tree)});
  }
  return trees;
}

void require_cover(const LengthTable& table, std::span<const SharedGroup> groups) {
  std::vector<bool> seen(static_cast<std::size_t>(table.size()), false);
  std::int64_t count = 0;
  for (const SharedGroup& group : groups) {
    for (const EntryId entry : group.entries) {
      if (entry < EntryId{0} || entry >= EntryId{table.size()} || seen[entry.index()]) {
        throw InputError("prefix trees",
                         "entry " + std::to_string(entry.value()) + " is in two or not in the table");
      }
      seen[entry.index()] = true;
      ++count;
    }
  }
  if (count == table.size()) return;
  throw InputError(
      "prefix trees",
      "are given for " + std::to_string(count) + " of " + std::to_string(table.size()) + " samples",
      "prefix.share: tree needs the trees of the samples' tokens");
}

Cost cost_of_tree(const CostModel& model, const PrefixTree& tree) {
  Cost cost = 0;
  for (const TreeSegment& segment : tree.segments())
    cost += model(segment.source().end) - model(segment.source().begin);
  return cost;
}

std::vector<SharedGroup> split_to_fit(const LengthTable& table, SharedGroup group,
                                      const PlanSettings& settings) {
  const std::vector<RowCap> caps = row_caps_of(table, settings.micro_batch);
  const RowsTogether none(caps);
  if (!fits(group, settings, none))
    return has_one_level(table, group) ? split_responses(table, group, settings, none)
                                       : split_subtrees(group, settings, none);
  std::vector<SharedGroup> whole;
  whole.push_back(std::move(group));
  return whole;
}

}  // namespace evenkeel
