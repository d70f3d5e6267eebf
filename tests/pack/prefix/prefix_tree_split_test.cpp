#include "pack/prefix/tree_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

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
using testing::Pair;
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

TEST(SplitTree, does_not_split_a_tree_that_fits) {
  const PrefixTree tree = tree_of(branching_samples());
  const std::vector<SubTree> parts = split_tree(tree, 4, 20);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_THAT(parts.front().samples, ElementsAre(0, 1, 2));
  EXPECT_EQ(parts.front().tree, tree);
}

TEST(SplitTree, repeats_the_shared_prefix_in_every_part) {
  const PrefixTree tree = PrefixTree::from_groups(PrefixGroups(GroupInfo{{4, 2, 2, 2, 2}}));
  const std::vector<SubTree> parts = split_tree(tree, 2, 8);
  EXPECT_THAT(samples_of(parts), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  for (const SubTree& part : parts) {
    EXPECT_EQ(part.tree, PrefixTree::from_groups(PrefixGroups(GroupInfo{{4, 2, 2}})));
  }
}

TEST(SplitTree, makes_a_single_sample_one_segment) {
  const PrefixTree tree = tree_of({{1, 2, 3}, {1, 4, 5}});
  const std::vector<SubTree> parts = split_tree(tree, 4, 4);
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[1].tree, tree_of({{1, 4, 5}}));
}

TEST(SplitTree, an_empty_tree_has_no_parts) {
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

// If the parts were filled one after the other, they would be {0, 1} and {2}, which repeat 2 3 4.
TEST(SplitTree, cuts_where_least_is_shared) {
  const std::vector<SubTree> parts = split_tree(tree_of({{1}, {2, 3, 4, 5}, {2, 3, 4, 6}}), 1, 5);
  EXPECT_THAT(samples_of(parts), ElementsAre(ElementsAre(0), ElementsAre(1, 2)));
  EXPECT_EQ(parts[1].repeated, 0);
}

TEST(SplitTree, reports_repeated_tokens_and_the_limit_that_forced_a_split) {
  const PrefixTree tree = tree_of({{1, 2, 3}, {1, 2, 4}, {1, 5}, {1, 6}});
  const std::vector<PartLimit> limits{{{1, 1, 1, 1}, 3}, {{9, 0, 0, 5}, 9}};
  const auto exceeded_limit = [&](std::int64_t cap, std::span<const PartLimit> of_samples) {
    std::vector<std::pair<std::int64_t, std::size_t>> told;
    for (const SubTree& part : split_tree(tree, 1, cap, of_samples))
      told.emplace_back(part.repeated, part.exceeded_limit);
    return told;
  };
  EXPECT_THAT(exceeded_limit(5, limits), ElementsAre(Pair(0, 0), Pair(1, 0)));
  EXPECT_THAT(exceeded_limit(6, limits), ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_THAT(exceeded_limit(6, std::span(limits).last(1)), ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_THAT(exceeded_limit(6, {}), ElementsAre(Pair(0, 0)));
}

/// A tree, an alignment, and limits that every sample satisfies alone.
struct Splitting {
  PrefixTree tree;
  std::int64_t alignment = 1;
  std::int64_t cap = 1;
  std::vector<PartLimit> limits;

  /// Rows and limits that samples exceed together, numbered as in split_tree; std::nullopt if the samples
  /// fit.
  [[nodiscard]] std::optional<std::size_t> first_broken(std::span<const std::int64_t> samples) const {
    if (aligned_rows(tree.subtree(samples), alignment) > cap) return 0;
    for (std::size_t l = 0; l < limits.size(); ++l) {
      std::int64_t amount = 0;
      for (const std::int64_t i : samples) amount += limits[l].sample_amounts[static_cast<std::size_t>(i)];
      if (amount > limits[l].most) return l + 1;
    }
    return std::nullopt;
  }
};

Splitting arbitrary_splitting() {
  Splitting splitting{*rc::gen::arbitrary<bool>() ? tree_of(arbitrary_samples())
                                                  : PrefixTree::from_groups(arbitrary_groups()),
                      *rc::gen::element<std::int64_t>(1, 2, 4, 8),
                      0,
                      {}};
  const std::int64_t samples = splitting.tree.num_samples();
  for (std::int64_t i = 0; i < samples; ++i) {
    splitting.cap = std::max(splitting.cap, align_up(splitting.tree.sample_length(i), splitting.alignment));
  }
  splitting.cap += *rc::gen::inRange<std::int64_t>(1, 20);
  if (*rc::gen::arbitrary<bool>()) {
    const auto most = *rc::gen::inRange<std::int64_t>(1, 8);
    splitting.limits.push_back(
        {*rc::gen::container<std::vector<std::int64_t>>(static_cast<std::size_t>(samples),
                                                        rc::gen::inRange<std::int64_t>(0, most + 1)),
         most});
  }
  return splitting;
}

RC_GTEST_PROP(SplitTree, gives_every_sample_to_one_part_under_all_limits_and_lengthens_no_path, ()) {
  const Splitting splitting = arbitrary_splitting();
  const PrefixTree& tree = splitting.tree;
  std::vector<std::int64_t> count(static_cast<std::size_t>(tree.num_samples()), 0);
  for (const SubTree& part : split_tree(tree, splitting.alignment, splitting.cap, splitting.limits)) {
    RC_ASSERT(!splitting.first_broken(part.samples));
    RC_ASSERT(std::ranges::is_sorted(part.samples));
    RC_ASSERT(part.tree == tree.subtree(part.samples));
    for (std::size_t i = 0; i < part.samples.size(); ++i) {
      ++count[static_cast<std::size_t>(part.samples[i])];
      RC_ASSERT(part.tree.sample_length(static_cast<std::int64_t>(i)) == tree.sample_length(part.samples[i]));
    }
  }
  RC_ASSERT(std::ranges::all_of(count, [](std::int64_t n) { return n == 1; }));
}

RC_GTEST_PROP(SplitTree, counts_repeated_tokens_and_names_a_limit_that_neighbors_would_exceed, ()) {
  const Splitting splitting = arbitrary_splitting();
  const std::vector<SubTree> parts =
      split_tree(splitting.tree, splitting.alignment, splitting.cap, splitting.limits);
  std::int64_t rows = 0;
  std::int64_t repeated = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    rows += parts[p].tree.num_rows();
    repeated += parts[p].repeated;
    if (p == 0) continue;
    std::vector<std::int64_t> both = parts[p - 1].samples;
    both.insert(both.end(), parts[p].samples.begin(), parts[p].samples.end());
    RC_ASSERT(splitting.first_broken(both) == std::optional(parts[p].exceeded_limit));
  }
  RC_ASSERT(rows - splitting.tree.num_rows() == repeated);
}

/// The number of repeated tokens, and the number of parts.
using Price = std::pair<std::int64_t, std::size_t>;

/// Returns the minimum over all feasible splits into runs of adjacent samples, by exhaustive search.
Price least_price(const Splitting& splitting) {
  const std::vector<std::int64_t> order = splitting.tree.depth_first_samples();
  constexpr std::int64_t unknown = std::int64_t{1} << 40;
  std::vector<Price> least{{0, 0}};  // rows
  for (std::size_t end = 1; end <= order.size(); ++end) {
    least.emplace_back(unknown, 0);
    for (std::size_t begin = 0; begin < end; ++begin) {
      const auto part = std::span(order).subspan(begin, end - begin);
      if (splitting.first_broken(part)) continue;
      const auto& [rows, parts] = least[begin];
      least[end] = std::min(least[end], {rows + splitting.tree.subtree(part).num_rows(), parts + 1});
    }
  }
  return {least.back().first - splitting.tree.num_rows(), least.back().second};
}

RC_GTEST_PROP(SplitTree, repeats_the_fewest_tokens_possible_in_its_order, ()) {
  const Splitting splitting = arbitrary_splitting();
  Price price{0, 0};
  for (const SubTree& part :
       split_tree(splitting.tree, splitting.alignment, splitting.cap, splitting.limits)) {
    price.first += part.repeated;
    ++price.second;
  }
  RC_ASSERT(price == least_price(splitting));
}

TEST(LeastParts, bound_the_parts_that_contain_a_segment) {
  // 4 tokens, then four branches of 2: a part of 8 has room for two of them.
  const PrefixTree tree = PrefixTree::from_groups(PrefixGroups(GroupInfo{{4, 2, 2, 2, 2}}));
  EXPECT_THAT(min_parts_per_segment(tree, 8), ElementsAre(2, 1, 1, 1, 1));
  EXPECT_THAT(min_parts_per_segment(tree, 7), ElementsAre(3, 1, 1, 1, 1));
  EXPECT_THAT(min_parts_per_segment(tree, 12), ElementsAre(1, 1, 1, 1, 1));
}

TEST(LeastParts, include_tokens_repeated_below) {
  // `1 | 2 | 3 3 | 4 4 | 5`: the branches below `1 2` are in two parts of 4, both of which contain `2`:
  // together with `5`, these are 7 rows, and a part has room for 3 of them below `1`.
  const PrefixTree tree = tree_of({{1, 2, 3, 3}, {1, 2, 4, 4}, {1, 5}});
  EXPECT_THAT(min_parts_per_segment(tree, 4), ElementsAre(3, 2, 1, 1, 1));
}

/// Returns the minimum number of tokens over all feasible parts of arbitrary samples, by exhaustive search.
std::int64_t least_tokens(const PrefixTree& tree, std::int64_t cap) {
  const std::size_t sets = std::size_t{1} << tree.num_samples();
  std::vector<std::int64_t> rows_of_set(sets, 0);
  std::vector<std::int64_t> least(sets, 0);
  for (std::size_t set = 1; set < sets; ++set) {
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < tree.num_samples(); ++i) {
      if ((set >> i & 1) != 0) samples.push_back(i);
    }
    rows_of_set[set] = tree.subtree(samples).num_rows();
    least[set] = std::int64_t{1} << 40;
    for (std::size_t part = set; part != 0; part = (part - 1) & set) {
      if (rows_of_set[part] <= cap) least[set] = std::min(least[set], rows_of_set[part] + least[set - part]);
    }
  }
  return least.back();
}

RC_GTEST_PROP(LeastParts, have_no_more_tokens_than_any_split_has, ()) {
  const Splitting splitting = arbitrary_splitting();
  std::vector<std::int64_t> some(
      static_cast<std::size_t>(std::min<std::int64_t>(splitting.tree.num_samples(), 8)));
  std::iota(some.begin(), some.end(), std::int64_t{0});
  const PrefixTree tree = splitting.tree.subtree(some);
  const std::vector<std::int64_t> parts = min_parts_per_segment(tree, splitting.cap);
  std::int64_t tokens = 0;
  for (std::int64_t s = 0; s < tree.size(); ++s)
    tokens += parts[static_cast<std::size_t>(s)] * tree.segment(s).rows.size();
  RC_ASSERT(tokens <= least_tokens(tree, splitting.cap));
}

}  // namespace
}  // namespace evenkeel
