#include "evenkeel/pack/prefix/packed.hpp"

#include <vector>

#include "pack/attention_entries.hpp"
#include "pack/position_runs.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> segment_lengths(const PrefixTree& tree) {
  std::vector<std::int64_t> lengths;
  for (const TreeSegment& segment : tree.segments()) lengths.push_back(segment.rows.size());
  return lengths;
}

PrefixTree roots(const PackedLayout& sequences) {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < sequences.size(); ++i) {
    nodes.push_back({-1, sequences.length(i)});
    ends.push_back(i);
  }
  return {nodes, std::move(ends)};
}

}  // namespace

PackedTreeLayout::PackedTreeLayout(PrefixTree tree, std::int64_t alignment, CpGroup cp)
    : tree_(std::move(tree)), segments_(segment_lengths(tree_), alignment, cp) {}

PackedTreeLayout::PackedTreeLayout(const PackedPrefixLayout& groups)
    : tree_(PrefixTree::of_groups(groups.groups())), segments_(groups.segments()) {}

PackedTreeLayout::PackedTreeLayout(PackedLayout sequences)
    : tree_(roots(sequences)), segments_(std::move(sequences)) {}

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

}  // namespace evenkeel
