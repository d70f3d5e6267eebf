#include "evenkeel/pack/prefix/packed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::zigzag2;
using testing::ElementsAre;

std::vector<SampleId> numbered_samples(const PrefixGroups& groups) {
  std::vector<SampleId> samples;
  for (std::int64_t i = 0; i < groups.num_suffixes(); ++i) samples.emplace_back(100 + i);
  return samples;
}

PackedPrefixLayout packed(const PrefixGroups& groups, std::int64_t alignment, CpGroup cp) {
  return {groups, numbered_samples(groups), alignment, cp};
}

std::vector<std::int64_t> positions_on(const PackedPrefixLayout& layout, CpRank rank) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(layout.segments().local_rows()));
  derive_position_ids(layout, rank, positions);
  return positions;
}

/// One to three groups whose prefixes and suffixes have at least `shortest` tokens.
PrefixGroups arbitrary_long_groups(std::int64_t shortest) {
  GroupInfo info(*rc::gen::inRange<std::size_t>(1, 4));
  for (auto& lengths : info) {
    lengths = *rc::gen::container<Lengths>(*rc::gen::inRange<std::size_t>(2, 7),
                                           rc::gen::inRange(shortest, 4 * shortest));
  }
  return PrefixGroups(info);
}

struct RankScores {
  std::vector<std::int64_t> of_rows, of_tokens;
};

RankScores scores_per_rank(const PackedPrefixLayout& layout) {
  RankScores scores;
  for (const CpRank rank : all_ranks(layout.segments().cp())) {
    const PrefixAttentionPlan plan = plan_prefix_attention(layout, rank);
    scores.of_rows.push_back(score_entries(plan.cu_seqlens_q_padded, plan.cu_seqlens_k_padded));
    scores.of_tokens.push_back(score_entries(plan.cu_seqlens_q, plan.cu_seqlens_k));
  }
  return scores;
}

double spread_of(const std::vector<std::int64_t>& scores) {
  const auto [least, most] = std::ranges::minmax(scores);
  return static_cast<double>(most - least) / static_cast<double>(most);
}

TEST(PackedPrefixLayout, aligns_prefix_and_suffixes_each_on_its_own) {
  const PackedPrefixLayout layout = packed(two_groups(), 4, zigzag2);
  EXPECT_THAT(layout.segments().cu_seqlens(), ElementsAre(0, 3, 5, 6, 8, 12));
  EXPECT_THAT(layout.segments().cu_seqlens_padded(), ElementsAre(0, 4, 8, 12, 16, 20));
  EXPECT_THAT(layout.segment_group(), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(layout.segment_sample(),
              ElementsAre(SampleId{-1}, SampleId{100}, SampleId{101}, SampleId{-1}, SampleId{102}));
  EXPECT_EQ(layout.prefix_segment(1), 3);
  EXPECT_EQ(layout.tokens_before(3), 0);
  EXPECT_EQ(layout.tokens_before(4), 2);
}

TEST(PackedPrefixLayout, needs_a_sample_for_every_suffix) {
  EXPECT_THROW(PackedPrefixLayout(two_groups(), std::vector<SampleId>(2), 4, zigzag2), InputError);
}

TEST(PackedPrefixLayout, counts_positions_from_the_prefix_on_every_rank) {
  const PackedPrefixLayout layout = packed(PrefixGroups(GroupInfo{{3, 2, 1}}), 4, zigzag2);
  EXPECT_THAT(positions_on(layout, CpRank{0}), ElementsAre(0, 3, 3, 6, 3, 6));
  EXPECT_THAT(positions_on(layout, CpRank{1}), ElementsAre(1, 2, 4, 5, 4, 5));
  std::vector<std::int64_t> too_short(5);
  EXPECT_THROW(derive_position_ids(layout, CpRank{0}, too_short), InputError);
}

TEST(PrefixAttentionPlan, keys_of_a_suffix_are_its_prefix_and_its_earlier_rows) {
  const PrefixAttentionPlan plan =
      plan_prefix_attention(packed(PrefixGroups(GroupInfo{{3, 2, 1}}), 4, zigzag2), CpRank{1});
  EXPECT_THAT(plan.segment, ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.cu_seqlens_q, ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(plan.cu_seqlens_q_padded, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(plan.cu_seqlens_k, ElementsAre(0, 3, 8, 12));
  EXPECT_THAT(plan.cu_seqlens_k_padded, ElementsAre(0, 3, 9, 15));
  EXPECT_THAT(plan.key_rows,
              ElementsAre(RowRange{0, 3}, RowRange{0, 3}, RowRange{4, 7}, RowRange{0, 3}, RowRange{8, 11}));
  EXPECT_EQ(plan.max_seqlen_q, 2);
  EXPECT_EQ(plan.max_seqlen_k, 6);
}

TEST(PrefixAttentionPlan, without_context_parallelism_has_one_entry_per_segment) {
  const PrefixAttentionPlan plan = plan_prefix_attention(packed(two_groups(), 1, {}), CpRank{0});
  EXPECT_THAT(plan.cu_seqlens_q, ElementsAre(0, 3, 5, 6, 8, 12));
  EXPECT_THAT(plan.cu_seqlens_k, ElementsAre(0, 3, 8, 12, 14, 20));
  EXPECT_EQ(plan.cu_seqlens_q_padded, plan.cu_seqlens_q);
  EXPECT_EQ(plan.cu_seqlens_k_padded, plan.cu_seqlens_k);
}

TEST(ScoreEntries, count_the_scores_of_causal_attention) {
  const std::vector<std::int32_t> queries{0, 3, 5};
  EXPECT_EQ(score_entries(queries, std::vector<std::int32_t>{0, 3, 8}), (1 + 2 + 3) + (4 + 5));
  EXPECT_THROW((void)score_entries(queries, std::vector<std::int32_t>{0, 3}), InputError);
  EXPECT_THROW((void)score_entries(queries, std::vector<std::int32_t>{0, 2, 8}), InputError);
}

// The prefix is computed once, and each suffix attends to the prefix and itself.
RC_GTEST_PROP(ScoreEntries, over_all_ranks_are_those_of_shared_attention, ()) {
  const PrefixGroups groups = arbitrary_groups(40);
  const CpGroup cp = arbitrary_cp();
  const RankScores scores = scores_per_rank(packed(groups, cp.chunks(), cp));
  std::int64_t expected = 0;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    const std::int64_t prefix = groups.prefix(g);
    expected += prefix * (prefix + 1) / 2;
    for (std::int64_t i = groups.suffixes_of(g).begin; i < groups.suffixes_of(g).end; ++i) {
      expected += groups.suffix(i) * prefix + groups.suffix(i) * (groups.suffix(i) + 1) / 2;
    }
  }
  RC_ASSERT(std::accumulate(scores.of_tokens.begin(), scores.of_tokens.end(), std::int64_t{0}) == expected);
}

// The work of a kernel over aligned rows is the same on every rank; skipping pad rows only reduces it, so the
// busiest rank never gets slower.
RC_GTEST_PROP(ScoreEntries, are_even_over_zigzag_ranks_and_pad_rows_only_save, ()) {
  const CpGroup cp{*rc::gen::element(1, 2, 4, 8), CpLayout::zigzag};
  const std::int64_t alignment = sequence_alignment(*rc::gen::element(1, 2, 8), cp);
  const RankScores scores = scores_per_rank(packed(arbitrary_long_groups(64 * cp.size), alignment, cp));
  RC_ASSERT(spread_of(scores.of_rows) == 0);
  RC_ASSERT(std::ranges::max(scores.of_tokens) <= scores.of_rows.front());
}

RC_GTEST_PROP(ScoreEntries, of_true_tokens_are_within_two_percent_once_padding_is_small, ()) {
  const CpGroup cp{*rc::gen::element(2, 4, 8), CpLayout::zigzag};
  const std::int64_t alignment = sequence_alignment(1, cp);
  const PrefixGroups groups = arbitrary_long_groups(100 * cp.size * alignment);
  RC_ASSERT(spread_of(scores_per_rank(packed(groups, alignment, cp)).of_tokens) <= 0.02);
}

RC_GTEST_PROP(PackedPrefixLayout, gives_every_token_the_position_it_has_in_its_own_sample, ()) {
  const PrefixGroups groups = arbitrary_groups(40);
  const CpGroup cp = arbitrary_cp();
  const PackedPrefixLayout layout = packed(groups, cp.chunks() * *rc::gen::element<std::int64_t>(1, 3), cp);
  std::vector<std::int64_t> merged(static_cast<std::size_t>(layout.segments().num_tokens()), -1);
  for (const CpRank rank : all_ranks(cp)) {
    const std::vector<std::int64_t> local = positions_on(layout, rank);
    unpack_rows(layout.segments(), rank, std::as_bytes(std::span(local)),
                std::as_writable_bytes(std::span(merged)));
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t s = 0; s < layout.segments().size(); ++s) {
    for (std::int64_t t = 0; t < layout.segments().length(s); ++t) {
      expected.push_back(layout.tokens_before(s) + t);
    }
  }
  RC_ASSERT(merged == expected);
}

}  // namespace
}  // namespace evenkeel
