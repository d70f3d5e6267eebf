#include "pack/prefix/tree_split.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

/// Returns the number of leading tokens that two samples share: those up to the end of the first ancestor of
/// `before`'s last segment whose subtree also has `sample`'s last segment.
std::int64_t common_prefix_length(const PrefixTree& tree, std::int64_t before, std::int64_t sample) {
  std::int64_t segment = tree.sample_end(before);
  const std::int64_t end = tree.sample_end(sample);
  while (segment != -1 && (end < segment || end >= tree.segment(segment).subtree_end)) {
    segment = tree.segment(segment).parent;
  }
  return segment == -1 ? 0 : tree.segment(segment).source().end;
}

std::vector<PartLimit> reorder_limits(std::span<const PartLimit> limits,
                                      std::span<const std::int64_t> order) {
  std::vector<PartLimit> ordered;
  for (const PartLimit& limit : limits) {
    PartLimit& own = ordered.emplace_back(PartLimit{{}, limit.most});
    for (const std::int64_t sample : order)
      own.sample_amounts.push_back(limit.sample_amounts[static_cast<std::size_t>(sample)]);
  }
  return ordered;
}

void require_sample_fits(std::int64_t sample, std::int64_t length, std::int64_t alignment,
                         std::int64_t max_tokens) {
  const std::int64_t aligned = align_up(length, alignment);
  if (aligned <= max_tokens) return;
  constexpr std::int64_t largest_cap = std::numeric_limits<std::int32_t>::max();  // limit of int32 cu_seqlens
  throw LimitError(
      "sample " + std::to_string(sample) + " of the group",
      "has " + format_plain_count(length, "token") + ", " + std::to_string(aligned) + " after alignment to " +
          std::to_string(alignment) + ", above the cap of " + format_plain_count(max_tokens, "token"),
      aligned <= largest_cap
          ? "Raise the cap to at least " + std::to_string(aligned) + ", or shorten or drop the sample"
          : "Shorten or drop the sample: a cap can be at most " + std::to_string(largest_cap));
}

}  // namespace

OrderedSamples ordered_samples(const PrefixTree& tree) {
  const std::vector<std::int64_t> order = tree.depth_first_samples();
  OrderedSamples samples;
  for (std::size_t i = 0; i < order.size(); ++i) {
    samples.shared.push_back(i == 0 ? 0 : common_prefix_length(tree, order[i - 1], order[i]));
    samples.lengths.push_back(tree.sample_length(order[i]));
  }
  return samples;
}

std::int64_t aligned_rows(const PrefixTree& tree, std::int64_t alignment) {
  EVENKEEL_PRECONDITION(cheap, alignment >= 1, alignment);
  std::int64_t rows = 0;
  for (const TreeSegment& segment : tree.segments()) rows += align_up(segment.rows.size(), alignment);
  return rows;
}

std::vector<SubTree> split_tree(const PrefixTree& tree, std::int64_t alignment, std::int64_t max_tokens,
                                std::span<const PartLimit> limits) {
  if (alignment < 1)
    throw InputError("sequence alignment", "is " + std::to_string(alignment) + "; it must be at least 1");
  (void)narrow<std::int32_t>(alignment, "sequence alignment");  // ensures that rounding up cannot overflow
  if (max_tokens < 1) throw InputError("cap", "is " + std::to_string(max_tokens) + "; it must be at least 1");
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    require_sample_fits(i, tree.sample_length(i), alignment, max_tokens);
  }
  const std::vector<std::int64_t> order = tree.depth_first_samples();
  const OrderedSamples samples = ordered_samples(tree);
  const std::vector<PartLimit> ordered = reorder_limits(limits, order);
  std::vector<SubTree> parts;
  for (const OrderedRun& run : runs_with_fewest_repeats(samples, alignment, max_tokens, ordered)) {
    std::vector<std::int64_t> own(order.begin() + run.samples.begin, order.begin() + run.samples.end);
    std::ranges::sort(own);
    PrefixTree part = tree.subtree(own);
    parts.push_back({std::move(own), std::move(part), run.repeated, run.exceeded_limit});
  }
  return parts;
}

std::vector<std::int64_t> min_parts_per_segment(const PrefixTree& tree, std::int64_t max_tokens) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(tree.size()), 1);
  std::vector<std::int64_t> below(parts.size(), 0);  // rows below each segment, including repeated ones
  for (std::int64_t s = tree.size() - 1; s >= 0; --s) {
    const TreeSegment& segment = tree.segment(s);
    const std::int64_t room = max_tokens - segment.source().end;
    EVENKEEL_PRECONDITION(cheap, room >= 0, max_tokens);
    const auto at = static_cast<std::size_t>(s);
    if (below[at] > room) parts[at] = (below[at] + room - 1) / room;
    if (segment.parent >= 0)
      below[static_cast<std::size_t>(segment.parent)] += below[at] + parts[at] * segment.rows.size();
  }
  return parts;
}

}  // namespace evenkeel
