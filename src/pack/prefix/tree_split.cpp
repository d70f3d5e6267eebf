#include "pack/prefix/tree_split.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

/// The aligned rows of a growing set of samples that come depth-first: each shares a prefix with the one
/// before it and none but that with those further back.
class GrowingTree {
 public:
  explicit GrowingTree(std::int64_t alignment) : alignment_(alignment) {}

  [[nodiscard]] std::int64_t aligned_rows() const noexcept { return rows_; }

  /// Adds a sample of `length` tokens, the first `shared` of which the sample before has too. A segment that
  /// has been one piece so far is cut where the new sample leaves it.
  void add(std::int64_t length, std::int64_t shared) {
    while (!path_.empty() && path_.back().begin >= shared) path_.pop_back();
    if (!path_.empty() && path_.back().end > shared) {
      RowRange& cut = path_.back();
      rows_ += aligned(shared - cut.begin) + aligned(cut.end - shared) - aligned(cut.size());
      cut.end = shared;
    }
    if (length == shared) return;
    rows_ += aligned(length - shared);
    path_.push_back({shared, length});
  }

 private:
  [[nodiscard]] std::int64_t aligned(std::int64_t tokens) const noexcept {
    return align_up(tokens, alignment_);
  }

  std::int64_t alignment_;
  std::int64_t rows_ = 0;
  std::vector<RowRange> path_;  // positions of the last sample's segments
};

/// Tokens that two samples have in common.
std::int64_t shared_tokens(const PrefixTree& tree, std::int64_t before, std::int64_t sample) {
  std::int64_t segment = tree.sample_end(before);
  const std::int64_t end = tree.sample_end(sample);
  while (segment != -1 && (end < segment || end >= tree.segment(segment).subtree_end)) {
    segment = tree.segment(segment).parent;
  }
  return segment == -1 ? 0 : tree.segment(segment).source().end;
}

void require_sample_fits(std::int64_t sample, std::int64_t length, std::int64_t alignment,
                         std::int64_t max_tokens) {
  const std::int64_t aligned = align_up(length, alignment);
  if (aligned <= max_tokens) return;
  constexpr std::int64_t largest_cap = std::numeric_limits<std::int32_t>::max();  // as cu_seqlens hold
  throw LimitError("sample " + std::to_string(sample) + " of the group",
                   "has " + std::to_string(length) + " tokens, " + std::to_string(aligned) +
                       " after alignment, and does not fit under the cap of " + std::to_string(max_tokens),
                   aligned <= largest_cap
                       ? "Raise the cap to at least " + std::to_string(aligned) + " or drop the sample"
                       : "Drop the sample: a cap can be at most " + std::to_string(largest_cap));
}

}  // namespace

std::int64_t aligned_rows(const PrefixTree& tree, std::int64_t alignment) {
  EVENKEEL_PRECONDITION(cheap, alignment >= 1, alignment);
  std::int64_t rows = 0;
  for (const TreeSegment& segment : tree.segments()) rows += align_up(segment.rows.size(), alignment);
  return rows;
}

std::vector<SubTree> split_tree(const PrefixTree& tree, std::int64_t alignment, std::int64_t max_tokens) {
  if (alignment < 1) throw InputError("sequence alignment", std::to_string(alignment) + " is below 1");
  (void)narrow<std::int32_t>(alignment, "sequence alignment");  // so that rounding up cannot overflow
  if (max_tokens < 1) throw InputError("cap", std::to_string(max_tokens) + " tokens are below 1");
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    require_sample_fits(i, tree.sample_length(i), alignment, max_tokens);
  }
  std::vector<SubTree> parts;
  GrowingTree current(alignment);
  for (const std::int64_t sample : tree.depth_first_samples()) {
    const std::int64_t length = tree.sample_length(sample);
    if (!parts.empty()) {
      GrowingTree grown = current;
      grown.add(length, shared_tokens(tree, parts.back().samples.back(), sample));
      if (grown.aligned_rows() <= max_tokens) {
        current = std::move(grown);
        parts.back().samples.push_back(sample);
        continue;
      }
    }
    parts.push_back({{sample}, {}});
    current = GrowingTree(alignment);
    current.add(length, 0);
  }
  for (SubTree& part : parts) {
    std::ranges::sort(part.samples);
    part.tree = tree.subtree(part.samples);
  }
  return parts;
}

}  // namespace evenkeel
