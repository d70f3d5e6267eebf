#include "evenkeel/pack/prefix/packed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "pack/arbitrary.hpp"
#include "pack/pack_rows.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "support/packed_attention.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::arbitrary_input;
using testing_support::AttentionOptions;
using testing_support::close;
using testing_support::HeadCounts;
using testing_support::RaggedInput;
using testing_support::RepeatedAttention;
using testing_support::RepeatedResult;
using testing_support::SharedPackedAttention;

std::vector<std::int64_t> positions_on(const auto& layout, CpRank rank) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(layout.segments().local_rows()));
  derive_position_ids(layout, rank, positions);
  return positions;
}

void expect_equal_plans(const PrefixAttentionPlan& a, const PrefixAttentionPlan& b) {
  RC_ASSERT(a.cu_seqlens_q == b.cu_seqlens_q);
  RC_ASSERT(a.cu_seqlens_q_padded == b.cu_seqlens_q_padded);
  RC_ASSERT(a.cu_seqlens_k == b.cu_seqlens_k);
  RC_ASSERT(a.cu_seqlens_k_padded == b.cu_seqlens_k_padded);
  RC_ASSERT(a.max_seqlen_q == b.max_seqlen_q);
  RC_ASSERT(a.max_seqlen_k == b.max_seqlen_k);
  RC_ASSERT(a.segment == b.segment);
  RC_ASSERT(a.key_rows == b.key_rows);
}

PackedTreeLayout arbitrary_tree_layout(CpGroup cp) {
  return {tree_of(arbitrary_samples()), cp.chunks() * *rc::gen::element<std::int64_t>(1, 2), cp};
}

TEST(PackedTreeLayout, aligns_and_cuts_every_segment_on_its_own) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 4, {2, CpLayout::zigzag});
  EXPECT_THAT(layout.segments().cu_seqlens(), ElementsAre(0, 2, 3, 4, 6, 7));
  EXPECT_THAT(layout.segments().cu_seqlens_padded(), ElementsAre(0, 4, 8, 12, 16, 20));
  EXPECT_THAT(positions_on(layout, CpRank{0}), ElementsAre(0, 3, 2, 5, 3, 6, 3, 6, 2, 5));
  EXPECT_THAT(positions_on(layout, CpRank{1}), ElementsAre(1, 2, 3, 4, 4, 5, 4, 5, 3, 4));
}

TEST(PackedTreeLayout, keys_of_a_segment_include_its_whole_path) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 1, {});
  const PrefixAttentionPlan plan = plan_prefix_attention(layout, CpRank{0});
  EXPECT_THAT(plan.cu_seqlens_q, ElementsAre(0, 2, 3, 4, 6, 7));
  EXPECT_THAT(plan.cu_seqlens_k, ElementsAre(0, 2, 5, 9, 14, 17));
  EXPECT_THAT(plan.key_rows, ElementsAre(RowRange{0, 2},                                  // 1 2
                                         RowRange{0, 2}, RowRange{2, 3},                  // 3
                                         RowRange{0, 2}, RowRange{2, 3}, RowRange{3, 4},  // 4
                                         RowRange{0, 2}, RowRange{2, 3}, RowRange{4, 6},  // 5 6
                                         RowRange{0, 2}, RowRange{6, 7}));                // 7
}

// One prompt with many responses is a tree with one level, and a trainer gets the same data for it.
RC_GTEST_PROP(PackedTreeLayout, of_one_level_is_that_of_prefix_groups, ()) {
  const PrefixGroups groups = arbitrary_groups();
  const CpGroup cp = arbitrary_cp();
  const std::int64_t alignment = cp.chunks() * *rc::gen::element<std::int64_t>(1, 3);
  const PackedPrefixLayout one_level(
      groups, std::vector<SampleId>(static_cast<std::size_t>(groups.num_suffixes())), alignment, cp);
  const PackedTreeLayout tree(PrefixTree::from_groups(groups), alignment, cp);
  RC_ASSERT(tree == PackedTreeLayout(one_level));
  for (const CpRank rank : all_ranks(cp)) {
    RC_ASSERT(positions_on(tree, rank) == positions_on(one_level, rank));
    expect_equal_plans(plan_prefix_attention(tree, rank), plan_prefix_attention(one_level, rank));
  }
}

/// [rows, width], with ones where a query row of a rank attends to a row of any rank, in the order of the
/// ranks.
std::vector<bool> mask_of(const AncestorIntervals& queries, const AncestorIntervals& keys) {
  std::vector<bool> mask;
  for (const std::int64_t q : queries.tin) {
    for (std::size_t k = 0; k < keys.tin.size(); ++k) mask.push_back(keys.tin[k] <= q && q < keys.tout[k]);
  }
  return mask;
}

RC_GTEST_PROP(PackedAncestorIntervals, match_the_tree_and_hide_pad_rows, ()) {
  const CpGroup cp{*rc::gen::element(1, 2, 4), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  const PackedTreeLayout layout = arbitrary_tree_layout(cp);
  // The tree row of every local row, -1 for pad rows, in the order of the ranks.
  std::vector<std::int64_t> tree_rows(static_cast<std::size_t>(layout.tree().num_rows()));
  for (std::size_t row = 0; row < tree_rows.size(); ++row) tree_rows[row] = static_cast<std::int64_t>(row);
  const std::int64_t pad = -1;
  std::vector<std::int64_t> all_rows;
  AncestorIntervals all;
  for (const CpRank rank : all_ranks(cp)) {
    std::vector<std::int64_t> local(static_cast<std::size_t>(layout.segments().local_rows()));
    pack_rows(layout.segments(), rank, std::as_bytes(std::span(tree_rows)), std::as_bytes(std::span(&pad, 1)),
              std::as_writable_bytes(std::span(local)));
    all_rows.insert(all_rows.end(), local.begin(), local.end());
    const AncestorIntervals own = ancestor_intervals(layout, rank);
    RC_ASSERT(own.tin.size() == local.size());
    all.tin.insert(all.tin.end(), own.tin.begin(), own.tin.end());
    all.tout.insert(all.tout.end(), own.tout.begin(), own.tout.end());
  }
  const AncestorIntervals of_tree = ancestor_intervals(layout.tree());
  const std::vector<bool> mask = mask_of(all, all);
  for (std::size_t q = 0; q < all_rows.size(); ++q) {
    bool sees_any = false;
    for (std::size_t k = 0; k < all_rows.size(); ++k) {
      const bool sees = mask[q * all_rows.size() + k];
      sees_any = sees_any || sees;
      if (all_rows[k] == -1) RC_ASSERT(!sees);
      if (all_rows[q] == -1 || all_rows[k] == -1) continue;
      const auto key = static_cast<std::size_t>(all_rows[k]);
      RC_ASSERT(sees == (all_rows[k] <= all_rows[q] && all_rows[q] < of_tree.tout[key]));
    }
    RC_ASSERT(sees_any);
  }
}

RC_GTEST_PROP(PackedTreeAttention, over_context_parallel_ranks_equals_that_of_repeated_samples, ()) {
  const CpGroup cp{*rc::gen::element(1, 2, 4), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  const PackedTreeLayout layout = arbitrary_tree_layout(cp);
  const HeadCounts counts{1, 1, 2};
  const AttentionOptions options{0.7, true};
  const RaggedInput input = arbitrary_input(layout.tree().num_rows(), counts);
  RepeatedAttention::SampleRows samples;
  for (std::int64_t i = 0; i < layout.tree().num_samples(); ++i) samples.push_back(layout.tree().rows_of(i));
  const RepeatedResult expected =
      RepeatedAttention(samples, counts, options)(input.q, input.k, input.v, input.grad_out);
  const bool skip_pad_rows = *rc::gen::arbitrary<bool>();
  const RepeatedResult actual =
      SharedPackedAttention(layout, counts.dim, options, skip_pad_rows, input).run();
  RC_ASSERT(close(actual.out, expected.out));
  RC_ASSERT(close(actual.grads.q, expected.grads.q));
  RC_ASSERT(close(actual.grads.k, expected.grads.k));
  RC_ASSERT(close(actual.grads.v, expected.grads.v));
}

RC_GTEST_PROP(PackedTreeAttention, scores_what_the_tree_counts_and_is_even_over_zigzag_ranks, ()) {
  const CpGroup cp{*rc::gen::element(1, 2, 4, 8), CpLayout::zigzag};
  const PackedTreeLayout layout(tree_of(arbitrary_samples(60)), cp.chunks(), cp);
  std::int64_t of_tokens = 0;
  std::vector<std::int64_t> of_rows;
  for (const CpRank rank : all_ranks(cp)) {
    const PrefixAttentionPlan plan = plan_prefix_attention(layout, rank);
    of_tokens += score_entries(plan.cu_seqlens_q, plan.cu_seqlens_k);
    of_rows.push_back(score_entries(plan.cu_seqlens_q_padded, plan.cu_seqlens_k_padded));
  }
  RC_ASSERT(of_tokens == sharing_savings(layout.tree()).score_entries);
  RC_ASSERT(std::ranges::count(of_rows, of_rows.front()) == cp.size);
}

TEST(SharedMicroBatch, has_no_tokens_if_its_samples_are_empty_beside_filler) {
  const PrefixTree nothing(std::vector<TreeNode>{}, {-1, -1});
  const PackedMicroBatch m = lay_out_shared({{SampleId{3}, 7, 0, 0}, {SampleId{4}, 7, 0, 0}}, nothing,
                                            {.alignment = 4, .cp = {1, CpLayout::zigzag}}, CpRank{0});
  EXPECT_FALSE(m.empty());
  EXPECT_EQ(m.layout.local_rows(), 4);
  EXPECT_EQ(m.num_tokens(), 0);
}

}  // namespace
}  // namespace evenkeel
