#include "evenkeel/plan/shared_groups.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/id_range.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/prefix/fewest_repeats.hpp"
#include "pack/prefix/tree_split.hpp"
#include "plan/units/row_caps.hpp"

namespace evenkeel {
namespace {

using Entries = std::vector<EntryId>;

/// The part of a sample's prompt that is shared where as many tokens behind each row are.
std::int64_t shared_prompt(const SampleShape& sample, std::int64_t ahead) {
  return std::max(sample.prompt - ahead, std::int64_t{0});
}

/// One prompt and its responses; a prompt and its response stay two segments.
PrefixTree one_level_tree(const LengthTable& table, std::span<const EntryId> entries, std::int64_t ahead) {
  std::vector<TreeNode> nodes{{-1, shared_prompt(table[entries.front()].shape, ahead)}};
  nodes.reserve(entries.size() + 1);
  std::vector<std::int64_t> ends;
  ends.reserve(entries.size());
  for (const EntryId entry : entries) {
    ends.push_back(std::ssize(nodes));
    const SampleShape& sample = table[entry].shape;
    nodes.push_back({0, sample.length() - shared_prompt(sample, ahead)});
  }
  return {nodes, std::move(ends)};
}

bool has_one_level(const LengthTable& table, const SharedGroup& group, std::int64_t ahead) {
  return group.tree == one_level_tree(table, group.entries, ahead);
}

/// A sample that fits under the cap only while prompt and response are aligned together.
SharedGroup whole_sample(const LengthTable& table, EntryId entry) {
  const std::vector<TreeNode> node{{-1, table[entry].shape.length()}};
  return {{entry}, PrefixTree(node, {0})};
}

/// The limits on what samples of a group have together beside their tokens, in the order of
/// `repeat_reasons`: on samples, then on rows of fields.
std::vector<PartLimit> part_limits(std::span<const EntryId> entries, std::int64_t most_samples,
                                   std::span<const RowCap> caps) {
  std::vector<PartLimit> limits{{std::vector<std::int64_t>(entries.size(), 1), most_samples}};
  for (const RowCap& cap : caps) {
    PartLimit& of_field = limits.emplace_back(PartLimit{{}, cap.most});
    for (const EntryId entry : entries) of_field.of_samples.push_back(cap.rows[entry.index()]);
  }
  return limits;
}

/// Whether samples have no more of capped fields together than a micro-batch may.
bool are_below(std::span<const RowCap> caps, std::span<const EntryId> entries) {
  RowsTogether rows(caps);
  for (const EntryId entry : entries) {
    if (!rows.have_room_for(entry)) return false;
    rows.add(entry);
  }
  return true;
}

/// Adds what a part repeats, by the limit that forced it: rows, or one of those above.
void add_repeated(RepeatedTokens& repeated, std::int64_t tokens, std::size_t forced_by) {
  constexpr std::size_t rows = 2;  // of repeat_reasons
  repeated[std::min(forced_by, rows)] += tokens;
}

/// One prompt with its responses, or a sample that fits under the cap only while both are aligned together.
SharedGroup part_of_responses(const LengthTable& table, Entries entries, std::int64_t alignment,
                              std::int64_t max_rows, std::int64_t ahead) {
  PrefixTree tree = one_level_tree(table, entries, ahead);
  if (aligned_rows(tree, alignment) > max_rows) return whole_sample(table, entries.front());
  return {std::move(entries), std::move(tree)};
}

/// Runs of responses that fit under the caps together with their prompt.
SplitGroup split_responses(const LengthTable& table, const SharedGroup& group, std::int64_t alignment,
                           std::int64_t max_rows, std::int64_t ahead, std::span<const PartLimit> limits) {
  OrderedSamples samples;
  for (const EntryId entry : group.entries) {
    samples.lengths.push_back(table[entry].shape.length());
    samples.shared.push_back(samples.shared.empty() ? 0 : shared_prompt(table[entry].shape, ahead));
  }
  SplitGroup split;
  for (const OrderedRun& run : runs_with_fewest_repeats(samples, alignment, max_rows, limits)) {
    Entries entries(group.entries.begin() + run.samples.begin, group.entries.begin() + run.samples.end);
    split.parts.push_back(part_of_responses(table, std::move(entries), alignment, max_rows, ahead));
    add_repeated(split.repeated, run.repeated, run.forced_by);
  }
  return split;
}

SplitGroup split_subtrees(const SharedGroup& group, std::int64_t alignment, std::int64_t max_rows,
                          std::span<const PartLimit> limits) {
  SplitGroup split;
  for (SubTree& sub : split_tree(group.tree, alignment, max_rows, limits)) {
    SharedGroup& part = split.parts.emplace_back(SharedGroup{{}, std::move(sub.tree)});
    for (const std::int64_t sample : sub.samples)
      part.entries.push_back(group.entries[static_cast<std::size_t>(sample)]);
    add_repeated(split.repeated, sub.repeated, sub.forced_by);
  }
  return split;
}

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
    PrefixTree tree = one_level_tree(table, group, ahead);
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
    PrefixTree tree = PrefixTree::of_tokens(samples, ahead);
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

std::int64_t repeated_ahead(const LengthTable& table, const SharedGroup& group,
                            const PlanSettings& settings) {
  const std::span<const TreeSegment> segments = group.tree.segments();
  // Between all children of a branch but one. Their samples have no more in common than these tokens.
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
  const std::int64_t alignment = settings.alignment(settings.largest_group());
  const std::int64_t max_rows = settings.cap(settings.largest_group());
  const std::int64_t most_samples = settings.micro_batch.limits().max_items;
  const std::vector<RowCap> caps = row_caps_of(table, settings.micro_batch);
  if (aligned_rows(group.tree, alignment) <= max_rows && std::ssize(group.entries) <= most_samples &&
      are_below(caps, group.entries)) {
    SplitGroup whole;
    whole.parts.push_back(std::move(group));
    return whole;
  }
  const std::vector<PartLimit> limits = part_limits(group.entries, most_samples, caps);
  const std::int64_t ahead = settings.predict_ahead;
  return has_one_level(table, group, ahead)
             ? split_responses(table, group, alignment, max_rows, ahead, limits)
             : split_subtrees(group, alignment, max_rows, limits);
}

std::vector<SharedGroup> cut_group(const LengthTable& table, const SharedGroup& group,
                                   std::span<const std::int64_t> begins, const PlanSettings& settings) {
  const int largest = settings.largest_group();
  const bool has_prompt = has_one_level(table, group, settings.predict_ahead);
  const std::vector<std::int64_t> order = group.tree.depth_first_samples();
  std::vector<SharedGroup> parts;
  for (std::size_t b = 0; b < begins.size(); ++b) {
    const std::int64_t end = b + 1 < begins.size() ? begins[b + 1] : std::ssize(order);
    std::vector<std::int64_t> samples(order.begin() + begins[b], order.begin() + end);
    std::ranges::sort(samples);
    Entries entries;
    for (const std::int64_t sample : samples)
      entries.push_back(group.entries[static_cast<std::size_t>(sample)]);
    parts.push_back(has_prompt ? part_of_responses(table, std::move(entries), settings.alignment(largest),
                                                   settings.cap(largest), settings.predict_ahead)
                               : SharedGroup{std::move(entries), group.tree.subtree(samples)});
  }
  return parts;
}

}  // namespace evenkeel
