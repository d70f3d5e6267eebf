#include "evenkeel/pack/prefix/tree.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/attention_entries.hpp"
#include "pack/position_runs.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_tree_rows = std::numeric_limits<std::int32_t>::max();

std::string name_of_segment(std::size_t segment) {
  return "tree segment " + std::to_string(segment);
}

std::size_t vector_index(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

void require_valid_num_tokens(std::size_t segment, std::int64_t tokens, std::int64_t rows_before) {
  if (tokens < 0) {
    throw InputError(name_of_segment(segment),
                     "has " + std::to_string(tokens) + " tokens; a length cannot be negative");
  }
  if (tokens > max_tree_rows - rows_before) {
    throw LimitError("prefix tree",
                     std::to_string(rows_before) + " rows and " + std::to_string(tokens) +
                         " more are above the limit of " + std::to_string(max_tree_rows),
                     "Share prefixes among fewer samples");
  }
}

void require_valid_sample_ends(std::span<const std::int64_t> sample_ends, std::int64_t segments) {
  for (std::size_t i = 0; i < sample_ends.size(); ++i) {
    if (sample_ends[i] >= -1 && sample_ends[i] < segments) continue;
    throw InputError("sample " + std::to_string(i) + " of the tree",
                     "ends at segment " + std::to_string(sample_ends[i]) +
                         ", but the number of segments is " + std::to_string(segments));
  }
}

std::vector<std::int64_t> segment_lengths(const PrefixTree& tree) {
  std::vector<std::int64_t> lengths;
  for (const TreeSegment& segment : tree.segments()) lengths.push_back(segment.rows.size());
  return lengths;
}

PrefixTree make_unshared_tree(const PackedLayout& sequences) {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < sequences.size(); ++i) {
    nodes.push_back({-1, sequences.length(i)});
    ends.push_back(i);
  }
  return {nodes, std::move(ends)};
}

/// Returns the number of query-key pairs of causal queries at positions [begin, end): each query sees its own
/// position and all before it.
std::int64_t causal_entries(RowRange positions) {
  const auto up_to = [](std::int64_t n) { return n * (n + 1) / 2; };
  return up_to(positions.end) - up_to(positions.begin);
}

using Samples = std::span<const std::span<const std::int64_t>>;

/// Samples, in ascending order, whose first `depth` tokens are equal. Their other tokens are not in a segment
/// yet.
struct Branch {
  std::vector<std::int64_t> samples;
  std::int64_t parent = -1;
  std::int64_t depth = 0;
};

/// Length of the common prefix of a branch's samples.
struct CommonPrefix {
  std::int64_t tokens = 0;
  bool are_equal = true;  ///< whether the samples are equal in all tokens
};

std::span<const std::int64_t> tokens_of(Samples samples, std::int64_t i) {
  return samples[static_cast<std::size_t>(i)];
}

CommonPrefix find_common_prefix(Samples samples, const Branch& branch) {
  const auto depth = static_cast<std::size_t>(branch.depth);
  const auto first = tokens_of(samples, branch.samples.front()).subspan(depth);
  std::size_t common = first.size();
  for (const std::int64_t i : branch.samples) {
    const auto other = tokens_of(samples, i).subspan(depth);
    common = static_cast<std::size_t>(std::ranges::mismatch(first.first(common), other).in1 - first.begin());
  }
  const auto ends = [&](std::int64_t i) { return tokens_of(samples, i).size() == depth + common; };
  return {branch.depth + static_cast<std::int64_t>(common), std::ranges::all_of(branch.samples, ends)};
}

/// Partitions the samples of a branch that are longer than `depth` by their token at `common`. Samples that
/// end at `common` form one part. Parts are in ascending order of their first samples.
std::vector<Branch> split_branch(Samples samples, const Branch& branch, std::int64_t parent,
                                 std::int64_t depth, std::int64_t common) {
  std::vector<Branch> parts;
  std::unordered_map<std::int64_t, std::size_t> part_of;
  std::optional<std::size_t> ended;
  for (const std::int64_t i : branch.samples) {
    const auto tokens = tokens_of(samples, i);
    if (std::ssize(tokens) == depth) continue;
    const bool ends = std::ssize(tokens) == common;
    const std::size_t part =
        ends ? ended.value_or(parts.size())
             : part_of.try_emplace(tokens[static_cast<std::size_t>(common)], parts.size()).first->second;
    if (ends) ended = part;
    if (part == parts.size()) parts.push_back({{}, parent, depth});
    parts[part].samples.push_back(i);
  }
  return parts;
}

}  // namespace

PrefixTree::PrefixTree(std::span<const TreeNode> segments, std::vector<std::int64_t> sample_ends)
    : sample_ends_(std::move(sample_ends)) {
  require_valid_sample_ends(sample_ends_, static_cast<std::int64_t>(segments.size()));
  std::vector<std::int64_t> open;  // path to the previous segment, outermost first
  const auto close_down_to = [&](std::int64_t parent) {
    for (; !open.empty() && open.back() != parent; open.pop_back()) {
      segments_[vector_index(open.back())].subtree_end = size();
    }
  };
  segments_.reserve(segments.size());
  for (const TreeNode node : segments) {
    close_down_to(node.parent);
    if (segments_.empty() && node.parent != -1) {
      throw InputError(name_of_segment(0), "its parent is " + std::to_string(node.parent) +
                                               "; the first segment is a root, so its parent must be -1");
    }
    if (open.empty() && node.parent != -1) {
      throw InputError(name_of_segment(segments_.size()),
                       "its parent " + std::to_string(node.parent) +
                           " is not on the path from the previous segment to its root",
                       "List segments depth-first");
    }
    require_valid_num_tokens(segments_.size(), node.tokens, num_rows());
    const std::int64_t depth = open.empty() ? 0 : segment(node.parent).source().end;
    open.push_back(size());
    segments_.push_back({{num_rows(), num_rows() + node.tokens}, node.parent, depth, 0, 0, 0});
  }
  close_down_to(-1);
  count_samples();
}

void PrefixTree::count_samples() {
  for (TreeSegment& segment : segments_) segment.first_sample = num_samples();
  for (std::int64_t i = num_samples() - 1; i >= 0; --i) {
    if (sample_end(i) == -1) continue;
    segments_[vector_index(sample_end(i))].first_sample = i;
    ++segments_[vector_index(sample_end(i))].num_samples;
  }
  for (std::size_t s = segments_.size(); s-- > 0;) {
    const TreeSegment& segment = segments_[s];
    if (segment.num_samples == 0) throw InputError(name_of_segment(s), "is not part of any sample");
    if (segment.parent == -1) continue;
    TreeSegment& parent = segments_[vector_index(segment.parent)];
    parent.num_samples += segment.num_samples;
    parent.first_sample = std::min(parent.first_sample, segment.first_sample);
  }
}

PrefixTree PrefixTree::from_groups(const PrefixGroups& groups) {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    const auto prefix = static_cast<std::int64_t>(nodes.size());
    nodes.push_back({-1, groups.prefix(g)});
    const RowRange suffixes = groups.suffixes_of(g);
    for (std::int64_t i = suffixes.begin; i < suffixes.end; ++i) {
      ends.push_back(static_cast<std::int64_t>(nodes.size()));
      nodes.push_back({prefix, groups.suffix(i)});
    }
  }
  return {nodes, std::move(ends)};
}

std::int64_t PrefixTree::sample_length(std::int64_t sample) const noexcept {
  const std::int64_t end = sample_end(sample);
  return end == -1 ? 0 : segment(end).source().end;
}

std::vector<std::int64_t> PrefixTree::path_to(std::int64_t segment) const {
  std::vector<std::int64_t> path;
  for (; segment != -1; segment = segments_[vector_index(segment)].parent) path.push_back(segment);
  std::ranges::reverse(path);
  return path;
}

std::vector<std::int64_t> PrefixTree::rows_of(std::int64_t sample) const {
  std::vector<std::int64_t> rows(vector_index(sample_length(sample)));
  for (const std::int64_t s : path_to(sample_end(sample))) {
    const auto first = rows.begin() + segment(s).depth;
    std::iota(first, first + segment(s).rows.size(), segment(s).rows.begin);
  }
  return rows;
}

std::vector<std::int64_t> PrefixTree::prediction_rows(std::int64_t sample) const {
  std::vector<std::int64_t> rows = rows_of(sample);
  if (rows.empty()) return rows;
  std::ranges::rotate(rows, rows.end() - 1);
  rows.front() = -1;
  return rows;
}

std::vector<std::int64_t> PrefixTree::depth_first_samples() const {
  std::vector<std::int64_t> samples(sample_ends_.size());
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  std::ranges::stable_sort(samples, {}, [&](std::int64_t i) { return sample_end(i); });
  return samples;
}

PrefixTree PrefixTree::subtree(std::span<const std::int64_t> samples) const {
  std::vector<std::int64_t> through(segments_.size(), 0);
  for (const std::int64_t i : samples) {
    if (i < 0 || i >= num_samples()) {
      throw InputError("subtree", "sample " + std::to_string(i) +
                                      " does not exist; the number of samples is " +
                                      std::to_string(num_samples()));
    }
    if (sample_end(i) != -1) ++through[vector_index(sample_end(i))];
  }
  for (std::size_t s = segments_.size(); s-- > 0;) {
    if (segments_[s].parent != -1) through[vector_index(segments_[s].parent)] += through[s];
  }
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> node_through;
  std::vector<std::int64_t> node_of(segments_.size(), -1);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (through[s] == 0) continue;
    const TreeSegment& segment = segments_[s];
    const std::int64_t parent = segment.parent == -1 ? -1 : node_of[vector_index(segment.parent)];
    node_of[s] = parent;
    if (segment.rows.empty()) continue;
    if (parent != -1 && node_through[vector_index(parent)] == through[s]) {
      nodes[vector_index(parent)].tokens += segment.rows.size();
      continue;
    }
    node_of[s] = static_cast<std::int64_t>(nodes.size());
    nodes.push_back({parent, segment.rows.size()});
    node_through.push_back(through[s]);
  }
  std::vector<std::int64_t> ends;
  for (const std::int64_t i : samples)
    ends.push_back(sample_end(i) == -1 ? -1 : node_of[vector_index(sample_end(i))]);
  return {nodes, std::move(ends)};
}

PackedTreeLayout::PackedTreeLayout(PrefixTree tree, std::int64_t alignment, CpGroup cp)
    : tree_(std::move(tree)), segments_(segment_lengths(tree_), alignment, cp) {}

PackedTreeLayout::PackedTreeLayout(const PackedPrefixLayout& groups)
    : tree_(PrefixTree::from_groups(groups.groups())), segments_(groups.segments()) {}

PackedTreeLayout::PackedTreeLayout(PackedLayout sequences)
    : tree_(make_unshared_tree(sequences)), segments_(std::move(sequences)) {}

void derive_position_ids(const PackedTreeLayout& layout, CpRank rank, std::span<std::int64_t> out) {
  fill_position_ids(
      layout.segments(), rank, [&](std::int64_t segment) { return layout.tree().segment(segment).depth; },
      out);
}

AncestorIntervals ancestor_intervals(const PackedTreeLayout& layout, CpRank rank) {
  const PackedLayout& segments = layout.segments();
  const auto first_row = [&](std::int64_t segment) {
    return std::int64_t{segments.cu_seqlens_padded()[static_cast<std::size_t>(segment)]};
  };
  AncestorIntervals intervals;
  for (std::int64_t s = 0; s < segments.size(); ++s) {
    const std::int64_t below = first_row(layout.tree().segment(s).subtree_end);
    for (const RowRange& run : cp_runs(segments.aligned_length(s), segments.cp(), rank)) {
      for (std::int64_t row = run.begin; row < run.end; ++row) {
        const std::int64_t number = first_row(s) + row;
        intervals.tin.push_back(number);
        intervals.tout.push_back(row < segments.length(s) ? below : number);
      }
    }
  }
  return intervals;
}

PrefixAttentionPlan plan_prefix_attention(const PackedTreeLayout& layout, CpRank rank) {
  return plan_attention(layout.segments(), rank, [&](std::int64_t segment) {
    std::vector<std::int64_t> path = layout.tree().path_to(segment);
    path.pop_back();
    return path;
  });
}

AncestorIntervals ancestor_intervals(const PrefixTree& tree) {
  AncestorIntervals intervals;
  intervals.tin.resize(static_cast<std::size_t>(tree.num_rows()));
  std::iota(intervals.tin.begin(), intervals.tin.end(), std::int64_t{0});
  intervals.tout.reserve(intervals.tin.size());
  for (const TreeSegment& segment : tree.segments()) {
    const std::int64_t below = tree.segment(segment.subtree_end - 1).rows.end;
    intervals.tout.insert(intervals.tout.end(), static_cast<std::size_t>(segment.rows.size()), below);
  }
  return intervals;
}

std::vector<std::int64_t> position_ids(const PrefixTree& tree) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tree.num_rows()));
  for (const TreeSegment& segment : tree.segments()) {
    std::iota(positions.begin() + segment.rows.begin, positions.begin() + segment.rows.end, segment.depth);
  }
  return positions;
}

SharingSavings& SharingSavings::operator+=(const SharingSavings& other) noexcept {
  tokens += other.tokens;
  repeated_tokens += other.repeated_tokens;
  score_entries += other.score_entries;
  repeated_score_entries += other.repeated_score_entries;
  return *this;
}

SharingSavings sharing_savings(const PrefixTree& tree) {
  SharingSavings savings;
  savings.tokens = tree.num_rows();
  for (const TreeSegment& segment : tree.segments())
    savings.score_entries += causal_entries(segment.source());
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    savings.repeated_tokens += tree.sample_length(i);
    savings.repeated_score_entries += causal_entries({0, tree.sample_length(i)});
  }
  return savings;
}

PrefixTree PrefixTree::from_tokens(Samples samples, std::int64_t ahead) {
  EVENKEEL_PRECONDITION(cheap, ahead >= 0, ahead);
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends(samples.size(), -1);
  Branch all;
  for (std::size_t i = 0; i < samples.size(); ++i) all.samples.push_back(static_cast<std::int64_t>(i));
  std::vector<Branch> waiting;  // a stack: the next branch is at the back
  if (!samples.empty()) waiting.push_back(std::move(all));
  while (!waiting.empty()) {
    const Branch branch = std::move(waiting.back());
    waiting.pop_back();
    const CommonPrefix common = find_common_prefix(samples, branch);
    const std::int64_t depth =
        common.are_equal ? common.tokens : std::max(branch.depth, common.tokens - ahead);
    std::int64_t node = branch.parent;
    if (depth > branch.depth) {
      node = static_cast<std::int64_t>(nodes.size());
      nodes.push_back({branch.parent, depth - branch.depth});
    }
    for (const std::int64_t i : branch.samples) {
      if (std::ssize(tokens_of(samples, i)) == depth) ends[static_cast<std::size_t>(i)] = node;
    }
    std::vector<Branch> parts = split_branch(samples, branch, node, depth, common.tokens);
    std::ranges::move(parts.rbegin(), parts.rend(), std::back_inserter(waiting));
  }
  return {nodes, std::move(ends)};
}

}  // namespace evenkeel
