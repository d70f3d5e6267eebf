#include "evenkeel/pack/prefix/tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"

namespace evenkeel {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int64_t> lengths_of_segments(const PrefixTree& tree) {
  std::vector<std::int64_t> lengths;
  for (const TreeSegment& segment : tree.segments()) lengths.push_back(segment.rows.size());
  return lengths;
}

std::vector<std::int64_t> parents_of(const PrefixTree& tree) {
  std::vector<std::int64_t> parents;
  for (const TreeSegment& segment : tree.segments()) parents.push_back(segment.parent);
  return parents;
}

TEST(PrefixTree, holds_each_shared_token_once_depth_first) {
  const PrefixTree tree = tree_of(branching_samples());
  EXPECT_THAT(lengths_of_segments(tree), ElementsAre(2, 1, 1, 2, 1));
  EXPECT_THAT(parents_of(tree), ElementsAre(-1, 0, 1, 1, 0));
  EXPECT_THAT(tree.sample_ends(), ElementsAre(2, 3, 4));
  EXPECT_EQ(tree.segment(3), (TreeSegment{{4, 6}, 1, 3, 4, 1, 1}));
  EXPECT_EQ(tree.segment(1), (TreeSegment{{2, 3}, 0, 2, 4, 0, 2}));
  EXPECT_EQ(tree.segment(3).source(), (RowRange{3, 5}));
  EXPECT_THAT(tree.path_to(tree.sample_end(1)), ElementsAre(0, 1, 3));
  EXPECT_THAT(tree.rows_of(1), ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(row_tokens(tree, branching_samples()), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(PrefixTree, shares_the_row_before_a_branch_with_every_sample_after_it) {
  const PrefixTree tree = tree_of(branching_samples());
  EXPECT_THAT(tree.prediction_rows(0), ElementsAre(-1, 0, 1, 2));
  EXPECT_THAT(tree.prediction_rows(1), ElementsAre(-1, 0, 1, 2, 4));
  EXPECT_THAT(tree.prediction_rows(2), ElementsAre(-1, 0, 1));
}

TEST(PrefixTree, of_equal_samples_is_one_segment) {
  const PrefixTree tree = tree_of({{5, 6}, {5, 6}, {5, 6}});
  EXPECT_THAT(lengths_of_segments(tree), ElementsAre(2));
  EXPECT_THAT(tree.sample_ends(), Each(0));
  EXPECT_EQ(tree.segment(0).num_samples, 3);
}

TEST(PrefixTree, ends_a_segment_where_a_sample_ends) {
  const PrefixTree tree = tree_of({{1, 2, 3}, {1}, {1, 2}});
  EXPECT_THAT(lengths_of_segments(tree), ElementsAre(1, 1, 1));
  EXPECT_THAT(parents_of(tree), ElementsAre(-1, 0, 1));
  EXPECT_THAT(tree.sample_ends(), ElementsAre(2, 0, 1));
  EXPECT_THAT(tree.depth_first_samples(), ElementsAre(1, 2, 0));
}

TEST(PrefixTree, has_a_root_for_each_sample_that_shares_nothing) {
  const PrefixTree tree = tree_of({{1, 2}, {}, {2, 2}, {3}});
  EXPECT_THAT(parents_of(tree), Each(-1));
  EXPECT_THAT(tree.sample_ends(), ElementsAre(0, -1, 1, 2));
  EXPECT_THAT(tree.rows_of(1), IsEmpty());
  EXPECT_THAT(tree.prediction_rows(1), IsEmpty());
}

TEST(PrefixTree, may_be_empty) {
  EXPECT_EQ(tree_of({}), PrefixTree());
  EXPECT_EQ(tree_of({}).num_rows(), 0);
  const PrefixTree of_empty_samples = tree_of({{}, {}});
  EXPECT_EQ(of_empty_samples.size(), 0);
  EXPECT_THAT(of_empty_samples.sample_ends(), Each(-1));
}

TEST(PrefixTree, of_a_chain_of_samples_needs_no_deep_recursion) {
  TokenLists chain{{0}};
  while (chain.size() < 2000) {
    chain.push_back(chain.back());
    chain.back().push_back(7);
  }
  EXPECT_EQ(tree_of(chain).size(), 2000);
}

TEST(PrefixTree, rejects_segments_that_are_not_depth_first) {
  const std::vector<TreeNode> not_on_the_way{{-1, 1}, {0, 1}, {-1, 1}, {0, 1}};
  EXPECT_THROW(PrefixTree(not_on_the_way, {1, 2, 3}), InputError);
  const std::vector<TreeNode> own_parent{{0, 1}};
  EXPECT_THROW(PrefixTree(own_parent, {0}), InputError);
  const std::vector<TreeNode> below_minus_one{{-2, 1}};
  EXPECT_THROW(PrefixTree(below_minus_one, {0}), InputError);
}

TEST(PrefixTree, rejects_invalid_lengths_ends_and_segments) {
  const std::vector<TreeNode> two{{-1, 1}, {0, 1}};
  EXPECT_THROW(PrefixTree(two, {2}), InputError);
  EXPECT_THROW(PrefixTree(two, {-2, 1}), InputError);
  EXPECT_THROW(PrefixTree(two, {0}), InputError) << "no sample goes through segment 1";
  const std::vector<TreeNode> negative{{-1, -1}};
  EXPECT_THROW(PrefixTree(negative, {0}), InputError);
  const std::vector<TreeNode> huge{{-1, std::numeric_limits<std::int32_t>::max()}, {0, 1}};
  EXPECT_THROW(PrefixTree(huge, {1}), LimitError);
}

TEST(PrefixTree, of_groups_has_a_root_for_each_prefix_and_a_child_for_each_suffix) {
  const PrefixTree tree = PrefixTree::from_groups(two_groups());
  EXPECT_THAT(lengths_of_segments(tree), ElementsAre(3, 2, 1, 2, 4));
  EXPECT_THAT(parents_of(tree), ElementsAre(-1, 0, 0, -1, 3));
  EXPECT_THAT(tree.sample_ends(), ElementsAre(1, 2, 4));
}

TEST(PrefixTree, of_one_prompt_and_different_responses_equals_the_tree_of_the_group) {
  EXPECT_EQ(tree_of({{9, 9, 9, 1, 1}, {9, 9, 9, 2}, {9, 9, 9, 3, 1, 2}}),
            PrefixTree::from_groups(PrefixGroups(GroupInfo{{3, 2, 1, 3}})));
}

TEST(PrefixTree, subtree_merges_segments_that_no_longer_diverge) {
  const PrefixTree tree = tree_of(branching_samples());
  const std::vector<std::int64_t> last_two{1, 2};
  const PrefixTree part = tree.subtree(last_two);
  EXPECT_THAT(lengths_of_segments(part), ElementsAre(2, 3, 1));
  EXPECT_THAT(part.sample_ends(), ElementsAre(1, 2));
  const std::vector<std::int64_t> missing{3};
  EXPECT_THROW((void)tree.subtree(missing), InputError);
}

TEST(PrefixTree, subtree_drops_empty_segments) {
  const PrefixTree tree = PrefixTree::from_groups(PrefixGroups(GroupInfo{{3, 0, 2}, {0, 1, 0}}));
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  const PrefixTree part = tree.subtree(all);
  EXPECT_THAT(lengths_of_segments(part), ElementsAre(3, 2, 1));
  EXPECT_THAT(part.sample_ends(), ElementsAre(0, 1, 2, -1));
}

// The first two samples share 1 2 3, all samples share 1 2.
TEST(PrefixTree, ends_segments_early_enough_for_equal_tokens_ahead) {
  const PrefixTree tree = tree_of(branching_samples(), 1);
  EXPECT_THAT(lengths_of_segments(tree), ElementsAre(1, 1, 2, 3, 2));
  EXPECT_THAT(parents_of(tree), ElementsAre(-1, 0, 1, 1, 0));
  // The second sample ends where the common tokens end; none of its rows belongs to the first sample, which
  // continues.
  EXPECT_THAT(lengths_of_segments(tree_of({{1, 2, 3, 4}, {1, 2, 3}, {1, 2, 3}}, 2)), ElementsAre(1, 3, 2));
}

RC_GTEST_PROP(PrefixTree, gives_every_sample_its_tokens_and_shares_every_common_prefix, ()) {
  const TokenLists samples = arbitrary_samples();
  const auto ahead = *rc::gen::inRange<std::int64_t>(0, 4);
  const PrefixTree tree = tree_of(samples, ahead);
  RC_ASSERT(std::ranges::count(row_tokens(tree, samples), -1) == 0);
  std::map<std::pair<std::int64_t, Tokens>, std::set<std::int64_t>> rows_of_prefixes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::vector<std::int64_t> rows = tree.rows_of(static_cast<std::int64_t>(i));
    for (std::int64_t t = 0; t < std::ssize(rows); ++t) {
      const std::int64_t end = std::min(t + 1 + ahead, std::ssize(rows));
      Tokens prefix(samples[i].begin(), samples[i].begin() + end);
      if (end < t + 1 + ahead) prefix.push_back(-1);
      rows_of_prefixes[{t, prefix}].insert(rows[static_cast<std::size_t>(t)]);
    }
  }
  RC_ASSERT(tree.num_rows() == std::ssize(rows_of_prefixes));
  for (const auto& [prefix, rows] : rows_of_prefixes) RC_ASSERT(rows.size() == 1U);
}

RC_GTEST_PROP(PrefixTree, is_rebuilt_from_its_structure, ()) {
  const PrefixTree tree = tree_of(arbitrary_samples());
  std::vector<TreeNode> nodes;
  for (const TreeSegment& segment : tree.segments()) nodes.push_back({segment.parent, segment.rows.size()});
  RC_ASSERT(PrefixTree(nodes, {tree.sample_ends().begin(), tree.sample_ends().end()}) == tree);
}

RC_GTEST_PROP(PrefixTree, has_no_segment_more_than_branches_and_ends_ask_for, ()) {
  const PrefixTree tree = tree_of(arbitrary_samples());
  for (std::int64_t s = 0; s < tree.size(); ++s) {
    const auto children = std::ranges::count(parents_of(tree), s);
    RC_ASSERT(!tree.segment(s).rows.empty());
    RC_ASSERT(children != 1 || std::ranges::count(tree.sample_ends(), s) > 0);
  }
}

RC_GTEST_PROP(PrefixTree, subtree_is_the_tree_of_the_chosen_samples, ()) {
  const TokenLists samples = arbitrary_samples();
  const PrefixTree tree = tree_of(samples);
  std::vector<std::int64_t> chosen;
  for (const std::int64_t i : tree.depth_first_samples()) {
    if (*rc::gen::arbitrary<bool>()) chosen.push_back(i);
  }
  TokenLists chosen_samples;
  for (const std::int64_t i : chosen) chosen_samples.push_back(samples[static_cast<std::size_t>(i)]);
  RC_ASSERT(tree.subtree(chosen) == tree_of(chosen_samples));
}

TEST(AncestorIntervals, match_the_example) {
  const AncestorIntervals intervals = ancestor_intervals(tree_of(branching_samples()));
  EXPECT_THAT(intervals.tin, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(intervals.tout, ElementsAre(7, 7, 6, 4, 6, 6, 7));
}

/// Returns whether row k contains q's own token or an earlier one, found by iterating over the samples.
std::vector<std::vector<bool>> visible_by_walking(const PrefixTree& tree) {
  const auto rows = static_cast<std::size_t>(tree.num_rows());
  std::vector<std::vector<bool>> visible(rows, std::vector<bool>(rows, false));
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    const std::vector<std::int64_t> path = tree.rows_of(i);
    for (std::size_t q = 0; q < path.size(); ++q) {
      for (std::size_t k = 0; k <= q; ++k) {
        visible[static_cast<std::size_t>(path[q])][static_cast<std::size_t>(path[k])] = true;
      }
    }
  }
  return visible;
}

RC_GTEST_PROP(AncestorIntervals, mask_exactly_the_rows_that_are_not_ancestors, ()) {
  const PrefixTree tree = *rc::gen::arbitrary<bool>() ? tree_of(arbitrary_samples())
                                                      : PrefixTree::from_groups(arbitrary_groups());
  const auto visible = visible_by_walking(tree);
  const auto [tin, tout] = ancestor_intervals(tree);
  std::int64_t entries = 0;
  for (std::size_t q = 0; q < tin.size(); ++q) {
    for (std::size_t k = 0; k < tin.size(); ++k) {
      const bool sees = tin[k] <= tin[q] && tin[q] < tout[k];
      RC_ASSERT(sees == visible[q][k]);
      entries += sees ? 1 : 0;
    }
  }
  RC_ASSERT(entries == sharing_savings(tree).score_entries);
}

RC_GTEST_PROP(PositionIds, of_a_tree_are_those_of_its_samples, ()) {
  const PrefixTree tree = tree_of(arbitrary_samples());
  const std::vector<std::int64_t> positions = position_ids(tree);
  for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
    std::int64_t expected = 0;
    for (const std::int64_t row : tree.rows_of(i)) {
      RC_ASSERT(positions[static_cast<std::size_t>(row)] == expected++);
    }
  }
}

TEST(SharingSavings, count_tokens_and_score_entries_with_and_without_sharing) {
  SharingSavings savings = sharing_savings(tree_of(branching_samples()));
  EXPECT_EQ(savings, (SharingSavings{7, 12, (1 + 2) + 3 + 4 + (4 + 5) + 3, 10 + 15 + 6}));
  savings += sharing_savings(tree_of({{1}}));
  EXPECT_EQ(savings, (SharingSavings{8, 13, 23, 32}));
}

RC_GTEST_PROP(SharingSavings, are_zero_without_sharing, ()) {
  TokenLists samples;
  for (const Tokens& tokens : arbitrary_samples()) {
    samples.push_back({100 + std::ssize(samples)});
    samples.back().insert(samples.back().end(), tokens.begin(), tokens.end());
  }
  const SharingSavings savings = sharing_savings(tree_of(samples));
  RC_ASSERT(savings.tokens == savings.repeated_tokens);
  RC_ASSERT(savings.score_entries == savings.repeated_score_entries);
}

}  // namespace
}  // namespace evenkeel
