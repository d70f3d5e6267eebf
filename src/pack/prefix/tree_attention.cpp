#include "evenkeel/pack/prefix/packed.hpp"

#include <numeric>

namespace evenkeel {
namespace {

/// Query-key pairs of causal queries at positions [begin, end): each sees its position and all before it.
std::int64_t causal_entries(RowRange positions) {
  const auto up_to = [](std::int64_t n) { return n * (n + 1) / 2; };
  return up_to(positions.end) - up_to(positions.begin);
}

}  // namespace

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

}  // namespace evenkeel
