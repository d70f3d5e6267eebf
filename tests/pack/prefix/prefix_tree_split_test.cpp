#include "pack/prefix/tree_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::vector<std::int64_t>> samples_of(const std::vector<SubTree>& parts) {
  std::vector<std::vector<std::int64_t>> samples;
  for (const SubTree& part : parts) samples.push_back(part.samples);
  return samples;
}

TEST(AlignedRows, round_every_segment_up) {
  EXPECT_EQ(aligned_rows(tree_of(branching_samples()), 4), 20);
  EXPECT_EQ(aligned_rows(tree_of(branching_samples()), 1), 7);
  EXPECT_EQ(aligned_rows(PrefixTree(), 4), 0);
}

TEST(SplitTree, leaves_a_tree_that_fits_whole) {
  const PrefixTree tree = tree_of(branching_samples());
  const std::vector<SubTree> parts = split_tree(tree, 4, 20);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_THAT(parts.front().samples, ElementsAre(0, 1, 2));
  EXPECT_EQ(parts.front().tree, tree);
}

TEST(SplitTree, repeats_the_shared_prefix_in_every_part) {
  const PrefixTree tree = PrefixTree::of_groups(PrefixGroups(GroupInfo{{4, 2, 2, 2, 2}}));
  const std::vector<SubTree> parts = split_tree(tree, 2, 8);
  EXPECT_THAT(samples_of(parts), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  for (const SubTree& part : parts) {
    EXPECT_EQ(part.tree, PrefixTree::of_groups(PrefixGroups(GroupInfo{{4, 2, 2}})));
  }
}

TEST(SplitTree, lets_a_sample_that_is_alone_be_one_segment) {
  const PrefixTree tree = tree_of({{1, 2, 3}, {1, 4, 5}});
  const std::vector<SubTree> parts = split_tree(tree, 4, 4);
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[1].tree, tree_of({{1, 4, 5}}));
}

TEST(SplitTree, of_nothing_has_no_parts) {
  EXPECT_THAT(split_tree(PrefixTree(), 4, 8), IsEmpty());
  EXPECT_THAT(samples_of(split_tree(tree_of({{}, {}}), 4, 8)), ElementsAre(ElementsAre(0, 1)));
}

TEST(SplitTree, names_a_sample_that_does_not_fit_alone) {
  const PrefixTree tree = tree_of({{1}, {1, 2, 3, 4, 5}});
  EXPECT_THAT(testing_support::message_of([&] { (void)split_tree(tree, 4, 7); }),
              AllOf(HasSubstr("sample 1"), HasSubstr("5 tokens, 8 after alignment"), HasSubstr("cap of 7")));
  EXPECT_THROW((void)split_tree(tree, 0, 8), InputError);
  EXPECT_THROW((void)split_tree(tree, 4, 0), InputError);
  EXPECT_THROW((void)split_tree(tree, std::int64_t{1} << 40, 8), LimitError);
}

/// A tree, an alignment, and a cap that every sample fits under on its own.
struct Splitting {
  PrefixTree tree;
  std::int64_t alignment = 1;
  std::int64_t cap = 1;
};

Splitting arbitrary_splitting() {
  Splitting splitting{
      *rc::gen::arbitrary<bool>() ? tree_of(arbitrary_samples()) : PrefixTree::of_groups(arbitrary_groups()),
      *rc::gen::element<std::int64_t>(1, 2, 4, 8), 0};
  for (std::int64_t i = 0; i < splitting.tree.num_samples(); ++i) {
    splitting.cap = std::max(splitting.cap, align_up(splitting.tree.sample_length(i), splitting.alignment));
  }
  splitting.cap += *rc::gen::inRange<std::int64_t>(1, 20);
  return splitting;
}

RC_GTEST_PROP(SplitTree, gives_every_sample_to_one_part_under_the_cap, ()) {
  const auto [tree, alignment, cap] = arbitrary_splitting();
  std::vector<std::int64_t> count(static_cast<std::size_t>(tree.num_samples()), 0);
  for (const SubTree& part : split_tree(tree, alignment, cap)) {
    RC_ASSERT(aligned_rows(part.tree, alignment) <= cap);
    RC_ASSERT(std::ranges::is_sorted(part.samples));
    RC_ASSERT(part.tree == tree.subtree(part.samples));
    for (const std::int64_t i : part.samples) ++count[static_cast<std::size_t>(i)];
  }
  RC_ASSERT(std::ranges::all_of(count, [](std::int64_t n) { return n == 1; }));
}

/// The fewest runs of neighbours whose trees fit, by trying all of them.
std::size_t fewest_parts(const Splitting& splitting) {
  const std::vector<std::int64_t> order = splitting.tree.depth_first_samples();
  std::vector<std::size_t> fewest{0};
  for (std::size_t end = 1; end <= order.size(); ++end) {
    fewest.push_back(order.size() + 1);
    for (std::size_t begin = 0; begin < end; ++begin) {
      const PrefixTree part = splitting.tree.subtree(std::span(order).subspan(begin, end - begin));
      if (aligned_rows(part, splitting.alignment) > splitting.cap) continue;
      fewest[end] = std::min(fewest[end], fewest[begin] + 1);
    }
  }
  return fewest.back();
}

RC_GTEST_PROP(SplitTree, makes_no_more_parts_than_its_order_needs, ()) {
  const Splitting splitting = arbitrary_splitting();
  RC_ASSERT(split_tree(splitting.tree, splitting.alignment, splitting.cap).size() == fewest_parts(splitting));
}

}  // namespace
}  // namespace evenkeel
