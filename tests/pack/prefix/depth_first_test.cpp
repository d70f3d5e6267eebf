#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/prefix/arbitrary_tree.hpp"

namespace evenkeel {
namespace {
namespace depth_first {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = TreeStep::Kind;

PackedTreeLayout laid_out(const PrefixTree& tree, std::int64_t alignment = 1, CpGroup cp = {}) {
  return {tree, alignment, cp};
}

// 1 2 | 3 | 4 | 5 6 | 7
TEST(DepthFirst, keeps_a_path_or_computes_its_first_rows_again) {
  const PackedTreeLayout layout = laid_out(tree_of(branching_samples()));
  const DepthFirstSchedule all = depth_first_schedule(layout);
  EXPECT_THAT(all.rows,
              ElementsAre(RowRange{0, 2}, RowRange{2, 3}, RowRange{3, 4}, RowRange{4, 6}, RowRange{6, 7}));
  EXPECT_THAT(all.parents, ElementsAre(-1, 0, 1, 1, 0));
  EXPECT_THAT(all.keys_before, ElementsAre(0, 2, 3, 3, 2));
  using S = TreeStep;
  EXPECT_THAT(all.steps, ElementsAre(S{Kind::visit, 0}, S{Kind::visit, 1}, S{Kind::visit, 2}, S{Kind::pop, 2},
                                     S{Kind::visit, 3}, S{Kind::pop, 3}, S{Kind::pop, 1}, S{Kind::visit, 4},
                                     S{Kind::pop, 4}, S{Kind::pop, 0}));
  EXPECT_EQ(all.peak_keys, 5);
  EXPECT_EQ(all.peak_kept, 5);
  EXPECT_EQ(all.recomputed, 0);

  const DepthFirstSchedule two = depth_first_schedule(layout, 2);
  EXPECT_EQ(two.rows, all.rows);
  EXPECT_THAT(two.steps, ElementsAre(S{Kind::push, 0}, S{Kind::push, 1}, S{Kind::visit, 2}, S{Kind::pop, 2},
                                     S{Kind::visit, 3}, S{Kind::pop, 3}, S{Kind::visit, 1}, S{Kind::pop, 1},
                                     S{Kind::visit, 4}, S{Kind::pop, 4}, S{Kind::visit, 0}, S{Kind::pop, 0}));
  EXPECT_EQ(two.peak_keys, 5);
  EXPECT_EQ(two.peak_kept, 2);
  EXPECT_EQ(two.recomputed, 3);
}

TEST(DepthFirst, cuts_a_segment_above_the_cap_at_multiples_of_the_alignment) {
  const DepthFirstSchedule schedule = depth_first_schedule(laid_out(tree_of({Tokens(11, 1)}), 2), 5);
  EXPECT_THAT(schedule.rows, ElementsAre(RowRange{0, 4}, RowRange{4, 8}, RowRange{8, 12}));  // a pad row
  EXPECT_EQ(schedule.recomputed, 8);
  EXPECT_EQ(schedule.peak_kept, 4);
}

TEST(DepthFirst, refuses_a_cap_below_every_piece) {
  const auto refusal = [](const PackedTreeLayout& layout, std::int64_t cap) -> std::string {
    try {
      (void)depth_first_schedule(layout, cap);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const PrefixTree tree = tree_of(branching_samples());
  EXPECT_THAT(refusal(laid_out(tree, 4), 3), HasSubstr("cap on kept rows: is 3, below the alignment of 4"));
  EXPECT_THAT(refusal(laid_out(tree, 4, {2, CpLayout::zigzag}), 8), HasSubstr("one context-parallel rank"));
}

/// Executes a schedule like a trainer; compares the open, kept and finished rows before each step with the
/// definition.
void run(const PackedTreeLayout& layout, const DepthFirstSchedule& schedule) {
  std::vector<std::int64_t> open;
  std::set<std::int64_t> visited, popped;
  std::int64_t keys = 0, kept = 0, peak_keys = 0, peak_kept = 0, again = 0;
  const auto size = [&](std::int64_t piece) { return schedule.rows[static_cast<std::size_t>(piece)].size(); };
  for (const auto [kind, piece] : schedule.steps) {
    const bool is_open = !open.empty() && open.back() == piece;
    if (!is_open) {
      RC_ASSERT(kind != Kind::pop && !popped.contains(piece));
      RC_ASSERT(schedule.parents[static_cast<std::size_t>(piece)] == (open.empty() ? -1 : open.back()));
      RC_ASSERT(schedule.keys_before[static_cast<std::size_t>(piece)] == keys);
      open.push_back(piece);
      keys += size(piece);
    }
    if (kind == Kind::push) {
      RC_ASSERT(!is_open);
      again += size(piece);
    } else if (kind == Kind::visit) {
      RC_ASSERT(visited.insert(piece).second);
      kept += size(piece);
    } else {
      RC_ASSERT(visited.contains(piece) && popped.insert(piece).second);
      kept -= size(piece);
      keys -= size(piece);
      open.pop_back();
    }
    peak_keys = std::max(peak_keys, keys);
    peak_kept = std::max(peak_kept, kept);
  }
  RC_ASSERT(open.empty() && popped.size() == schedule.rows.size());
  RC_ASSERT(peak_keys == schedule.peak_keys && peak_kept == schedule.peak_kept);
  RC_ASSERT(again == schedule.recomputed);

  std::int64_t row = 0;  // the pieces cover all rows, and each comes after the rows before it in its samples
  for (std::size_t p = 0; p < schedule.rows.size(); ++p) {
    const RowRange rows = schedule.rows[p];
    RC_ASSERT(rows.begin == row && !rows.empty());
    row = rows.end;
    std::int64_t s = 0;
    while (layout.segments().local_range(s).end <= rows.begin) ++s;
    const RowRange segment = layout.segments().local_range(s);
    RC_ASSERT(rows.end <= segment.end);
    std::int64_t before = rows.begin - segment.begin;
    for (const std::int64_t ancestor : layout.tree().path_to(s))
      before += ancestor == s ? 0 : layout.segments().local_range(ancestor).size();
    RC_ASSERT(schedule.keys_before[p] == before);
  }
  RC_ASSERT(row == layout.segments().local_rows());
}

RC_GTEST_PROP(DepthFirst, every_piece_finds_its_path_and_is_done_after_those_below_it, ()) {
  const PrefixTree tree = tree_of(arbitrary_samples());
  const auto alignment = *rc::gen::inRange<std::int64_t>(1, 4);
  run(laid_out(tree, 4, {2, CpLayout::zigzag}),
      depth_first_schedule(laid_out(tree, 4, {2, CpLayout::zigzag})));
  const auto cap = *rc::gen::inRange<std::int64_t>(alignment, 20);
  const DepthFirstSchedule schedule = depth_first_schedule(laid_out(tree, alignment), cap);
  run(laid_out(tree, alignment), schedule);
  RC_ASSERT(schedule.peak_kept <= cap);
}

/// Returns the minimum number of rows that must be recomputed: over all sets of rows without a path longer
/// than the cap. A row that is not recomputed is kept while its descendants are computed, in any order.
std::int64_t fewest_again(const PrefixTree& tree, std::int64_t cap) {
  std::vector<std::uint32_t> paths;
  for (std::int64_t sample = 0; sample < tree.num_samples(); ++sample) {
    paths.push_back(0);
    for (const std::int64_t row : tree.rows_of(sample)) paths.back() |= 1U << row;
  }
  int most = 0;
  for (std::uint32_t kept = 0; kept < 1U << tree.num_rows(); ++kept) {
    if (std::popcount(kept) > most &&
        std::ranges::all_of(paths, [&](std::uint32_t path) { return std::popcount(path & kept) <= cap; }))
      most = std::popcount(kept);
  }
  return tree.num_rows() - most;
}

RC_GTEST_PROP(DepthFirst, no_choice_of_rows_to_keep_computes_fewer_again, ()) {
  TokenLists samples = arbitrary_samples(3);
  while (tree_of(samples).num_rows() > 12) samples.pop_back();
  const PrefixTree tree = tree_of(samples);
  for (std::int64_t cap = 1; cap <= 5; ++cap)
    RC_ASSERT(depth_first_schedule(laid_out(tree), cap).recomputed == fewest_again(tree, cap));
}

}  // namespace depth_first
}  // namespace
}  // namespace evenkeel
