#include "evenkeel/pack/prefix/tree.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_rows = std::numeric_limits<std::int32_t>::max();

std::string name_of_segment(std::size_t segment) {
  return "tree segment " + std::to_string(segment);
}

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

void require_tokens(std::size_t segment, std::int64_t tokens, std::int64_t rows_before) {
  if (tokens < 0) {
    throw InputError(name_of_segment(segment),
                     "has " + std::to_string(tokens) + " tokens; a length cannot be negative");
  }
  if (tokens > max_rows - rows_before) {
    throw LimitError("prefix tree",
                     std::to_string(rows_before) + " rows and " + std::to_string(tokens) +
                         " more are above the limit of " + std::to_string(max_rows),
                     "Share prefixes among fewer samples");
  }
}

void require_ends(std::span<const std::int64_t> sample_ends, std::int64_t segments) {
  for (std::size_t i = 0; i < sample_ends.size(); ++i) {
    if (sample_ends[i] >= -1 && sample_ends[i] < segments) continue;
    throw InputError(
        "sample " + std::to_string(i) + " of the tree",
        "ends at segment " + std::to_string(sample_ends[i]) + "; there are " + std::to_string(segments));
  }
}

}  // namespace

PrefixTree::PrefixTree(std::span<const TreeNode> segments, std::vector<std::int64_t> sample_ends)
    : sample_ends_(std::move(sample_ends)) {
  require_ends(sample_ends_, static_cast<std::int64_t>(segments.size()));
  std::vector<std::int64_t> open;  // the way from the segment before to its root, outermost first
  const auto close_down_to = [&](std::int64_t parent) {
    for (; !open.empty() && open.back() != parent; open.pop_back()) {
      segments_[at(open.back())].subtree_end = size();
    }
  };
  segments_.reserve(segments.size());
  for (const TreeNode node : segments) {
    close_down_to(node.parent);
    if (open.empty() && node.parent != -1) {
      throw InputError(name_of_segment(segments_.size()),
                       "its parent " + std::to_string(node.parent) +
                           " is not on the path from the previous segment to its root",
                       "List segments depth-first");
    }
    require_tokens(segments_.size(), node.tokens, num_rows());
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
    segments_[at(sample_end(i))].first_sample = i;
    ++segments_[at(sample_end(i))].num_samples;
  }
  for (std::size_t s = segments_.size(); s-- > 0;) {
    const TreeSegment& segment = segments_[s];
    if (segment.num_samples == 0) throw InputError(name_of_segment(s), "no sample goes through it");
    if (segment.parent == -1) continue;
    TreeSegment& parent = segments_[at(segment.parent)];
    parent.num_samples += segment.num_samples;
    parent.first_sample = std::min(parent.first_sample, segment.first_sample);
  }
}

PrefixTree PrefixTree::of_groups(const PrefixGroups& groups) {
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
  for (; segment != -1; segment = segments_[at(segment)].parent) path.push_back(segment);
  std::ranges::reverse(path);
  return path;
}

std::vector<std::int64_t> PrefixTree::rows_of(std::int64_t sample) const {
  std::vector<std::int64_t> rows(at(sample_length(sample)));
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
      throw InputError("subtree",
                       "there is no sample " + std::to_string(i) + " among " + std::to_string(num_samples()));
    }
    if (sample_end(i) != -1) ++through[at(sample_end(i))];
  }
  for (std::size_t s = segments_.size(); s-- > 0;) {
    if (segments_[s].parent != -1) through[at(segments_[s].parent)] += through[s];
  }
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> node_through;
  std::vector<std::int64_t> node_of(segments_.size(), -1);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (through[s] == 0) continue;
    const TreeSegment& segment = segments_[s];
    const std::int64_t parent = segment.parent == -1 ? -1 : node_of[at(segment.parent)];
    node_of[s] = parent;
    if (segment.rows.empty()) continue;
    if (parent != -1 && node_through[at(parent)] == through[s]) {
      nodes[at(parent)].tokens += segment.rows.size();
      continue;
    }
    node_of[s] = static_cast<std::int64_t>(nodes.size());
    nodes.push_back({parent, segment.rows.size()});
    node_through.push_back(through[s]);
  }
  std::vector<std::int64_t> ends;
  for (const std::int64_t i : samples) ends.push_back(sample_end(i) == -1 ? -1 : node_of[at(sample_end(i))]);
  return {nodes, std::move(ends)};
}

}  // namespace evenkeel
