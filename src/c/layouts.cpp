#include "c/layouts.hpp"

#include <string>
#include <utility>
#include <vector>

#include "c/arrays.hpp"
#include "c/failures.hpp"
#include "c/named_arrays.hpp"

namespace evenkeel::c {
namespace {

std::vector<std::int64_t> differences(const std::int32_t* sums, std::int64_t count, const char* name) {
  require(sums, name);
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::int64_t{sums[i + 1]} - sums[i]);
  return values;
}

/// Returns whether each sample consists of a single segment that no other sample has.
bool shares_nothing(const evenkeel_tree& tree) {
  if (tree.num_segments != tree.num_samples) return false;
  for (std::int64_t i = 0; i < tree.num_segments; ++i)
    if (tree.parents[i] != -1 || tree.sample_ends[i] != i) return false;
  return true;
}

}  // namespace

CpGroup cp_group_of(std::int32_t cp_size, std::int32_t cp_layout) {
  if (cp_size < 1)
    throw InputError("context-parallel size", "is " + std::to_string(cp_size) + "; it must be at least 1");
  if (cp_layout != EVENKEEL_ZIGZAG && cp_layout != EVENKEEL_CONTIGUOUS)
    throw WrongArgument("cp_layout", "is " + std::to_string(cp_layout) +
                                         "; it must be EVENKEEL_ZIGZAG or EVENKEEL_CONTIGUOUS");
  return {cp_size, cp_layout == EVENKEEL_ZIGZAG ? CpLayout::zigzag : CpLayout::contiguous};
}

PackedLayout layout_of(const evenkeel_layout* layout) {
  require(layout, "layout");
  require_list(layout->cu_seqlens, layout->num_sequences, "layout->cu_seqlens");
  const std::int64_t count = layout->num_sequences;
  return {differences(layout->cu_seqlens, count, "layout->cu_seqlens"),
          differences(layout->cu_seqlens_padded, count, "layout->cu_seqlens_padded"), layout->alignment,
          cp_group_of(layout->cp_size, layout->cp_layout)};
}

PrefixTree tree_of(const evenkeel_tree* tree) {
  require(tree, "tree");
  const std::span<const std::int64_t> parents = array_of(tree->parents, tree->num_segments, "tree->parents");
  const std::span<const std::int64_t> tokens = array_of(tree->tokens, tree->num_segments, "tree->tokens");
  const std::span<const std::int64_t> ends =
      array_of(tree->sample_ends, tree->num_samples, "tree->sample_ends");
  std::vector<TreeNode> nodes;
  nodes.reserve(parents.size());
  for (std::size_t i = 0; i < parents.size(); ++i) nodes.push_back({parents[i], tokens[i]});
  return {nodes, {ends.begin(), ends.end()}};
}

PackedTreeLayout tree_layout_of(const evenkeel_layout* layout) {
  require(layout, "layout");
  require(layout->tree, "layout->tree");
  PrefixTree tree = tree_of(layout->tree);
  if (shares_nothing(*layout->tree)) return PackedTreeLayout(layout_of(layout));
  return {std::move(tree), layout->alignment, cp_group_of(layout->cp_size, layout->cp_layout)};
}

void add_tree_structure(evenkeel_arrays& arrays, const PrefixTree& tree) {
  arrays.add_mapped("parents", tree.segments(), &TreeSegment::parent);
  arrays.add_mapped("tokens", tree.segments(),
                    [](const TreeSegment& segment) { return segment.rows.size(); });
  arrays.add("sample_ends", std::vector(tree.sample_ends().begin(), tree.sample_ends().end()));
}

void add_schedule(evenkeel_arrays& arrays, const DepthFirstSchedule& schedule, const std::string& prefix) {
  std::vector<std::int64_t> rows;
  for (const RowRange& range : schedule.rows) rows.insert(rows.end(), {range.begin, range.end});
  arrays.add(prefix + "rows", std::move(rows), {std::ssize(schedule.rows), 2});
  arrays.add(prefix + "parents", schedule.parents);
  arrays.add(prefix + "keys_before", schedule.keys_before);
  arrays.add_mapped(prefix + "kinds", schedule.steps,
                    [](const TreeStep& step) { return static_cast<std::int64_t>(step.kind); });
  arrays.add_mapped(prefix + "pieces", schedule.steps, &TreeStep::piece);
  arrays.add(prefix + "peak_keys", schedule.peak_keys);
  arrays.add(prefix + "peak_kept", schedule.peak_kept);
  arrays.add(prefix + "recomputed", schedule.recomputed);
}

CpRank checked_cp_rank(CpGroup cp, std::int32_t rank) {
  if (0 <= rank && rank < cp.size) return CpRank{rank};
  throw InputError("context-parallel rank",
                   "is " + std::to_string(rank) + "; it must be from 0 to " + std::to_string(cp.size - 1));
}

std::span<std::byte> bytes_of(const evenkeel_rows* rows, const char* name) {
  require(rows, name);
  require_list(rows->data, rows->bytes, name);
  return {static_cast<std::byte*>(rows->data), static_cast<std::size_t>(rows->bytes)};
}

PaddedMask mask_of(const evenkeel_mask* mask) {
  require(mask, "mask");
  require_list(mask->values, mask->batch, "mask->values");
  if (mask->seq < 0)
    throw WrongArgument("mask->seq", "is " + std::to_string(mask->seq) + "; it must be at least 0");
  return {mask->batch, mask->seq, array_of(mask->values, mask->batch * mask->seq, "mask->values")};
}

std::size_t checked_row_bytes(std::int64_t row_bytes) {
  if (row_bytes < 0)
    throw WrongArgument("row_bytes", "is " + std::to_string(row_bytes) + "; it must be at least 0");
  return static_cast<std::size_t>(row_bytes);
}

}  // namespace evenkeel::c
