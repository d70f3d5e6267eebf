#include "evenkeel/pack/packed_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::zigzag2;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t max_rows = std::numeric_limits<std::int32_t>::max();

TEST(PackedLayout, aligns_every_sequence_and_sums_both_lengths) {
  const PackedLayout layout(Lengths{2, 4, 6, 1}, 4, zigzag2);
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0, 2, 6, 12, 13));
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 4, 8, 16, 20));
  EXPECT_EQ(layout.max_seqlen(), 8);
  EXPECT_EQ(layout.local_rows(), 10);
  EXPECT_EQ(layout.length(2), 6);
  EXPECT_EQ(layout.aligned_length(2), 8);
  EXPECT_EQ(layout.local_range(2), (RowRange{4, 8}));
}

TEST(PackedLayout, without_sequences_has_no_rows) {
  const PackedLayout layout;
  EXPECT_EQ(layout.size(), 0);
  EXPECT_EQ(layout.num_rows(), 0);
  EXPECT_EQ(layout.max_seqlen(), 0);
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0));
  EXPECT_EQ(layout, PackedLayout(Lengths{}, 1, {}));
}

TEST(PackedLayout, an_empty_sequence_takes_no_row) {
  const PackedLayout layout(Lengths{2, 0, 3}, 4, zigzag2);
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 4, 4, 8));
  EXPECT_TRUE(layout.local_range(1).empty());
}

TEST(PackedLayout, padding_to_a_shape_appends_rows_and_sequences) {
  const PackedLayout layout = PackedLayout(Lengths{2, 4, 6, 1}, 4, zigzag2).with_shape({12, 7, 16, 2});
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0, 2, 6, 12, 13, 13, 13, 13));
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 4, 8, 16, 20, 24, 24, 24));
  EXPECT_EQ(layout.max_seqlen(), 16);
  EXPECT_EQ(layout.local_rows(), 12);
  EXPECT_EQ(layout.num_tokens(), 13);
}

TEST(PackedLayout, splits_padding_into_sequences_of_at_most_max_seqlen) {
  const PackedLayout layout = PackedLayout(Lengths{3}, 4, zigzag2).with_shape({16, 5, 11, 2});
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 4, 12, 20, 28, 32));
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0, 3, 3, 3, 3, 3));
}

TEST(PackedLayout, padding_to_its_own_shape_changes_nothing) {
  const PackedLayout layout(Lengths{2, 6}, 4, zigzag2);
  EXPECT_EQ(layout.with_shape({6, 2, 8, 2}), layout);
}

TEST(PackedLayout, cannot_be_padded_to_fewer_rows_or_without_a_sequence_for_them) {
  const PackedLayout layout(Lengths{2, 6}, 4, zigzag2);  // 12 rows, 6 on each rank
  for (const PackedShape& shape :
       {PackedShape{5, 3, 8, 2}, {6, 1, 8, 2}, {6, 2, 7, 2}, {8, 2, 8, 2}, {7, 3, 8, 2}, {6, 2, 8, 1}})
    EXPECT_THROW((void)layout.with_shape(shape), InputError);
}

TEST(PackedLayout, a_negative_length_is_an_error_that_names_the_sequence) {
  try {
    const PackedLayout layout(Lengths{2, -1}, 4, zigzag2);
    FAIL() << "a negative length must throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequence 1"));
    EXPECT_THAT(error.what(), HasSubstr("-1"));
  }
}

TEST(PackedLayout, an_alignment_must_divide_into_the_chunks) {
  EXPECT_THROW(PackedLayout(Lengths{2}, 6, zigzag2), InputError);
  EXPECT_THROW(PackedLayout(Lengths{2}, 0, {}), InputError);
  EXPECT_THROW(PackedLayout(Lengths{2}, 4, {0, CpLayout::zigzag}), InputError);
  EXPECT_NO_THROW(PackedLayout(Lengths{2}, 6, {2, CpLayout::contiguous}));
}

TEST(PackedLayout, holds_rows_up_to_the_limit_of_int32) {
  EXPECT_EQ(PackedLayout(Lengths{max_rows - 1, 1}, 1, {}).num_rows(), max_rows);
  EXPECT_THROW(PackedLayout(Lengths{max_rows, 1}, 1, {}), LimitError);
  EXPECT_THROW(PackedLayout(Lengths{max_rows}, 4, zigzag2), LimitError);
  EXPECT_THROW(PackedLayout(Lengths{std::numeric_limits<std::int64_t>::max()}, 4, zigzag2), LimitError);
  EXPECT_THROW(PackedLayout(Lengths{}, max_rows + 1, {}), LimitError);
}

TEST(PackedLayout, padded_to_a_total_gives_the_last_sequence_the_difference) {
  const PackedLayout layout = PackedLayout(Lengths{2, 4, 6, 1}, 4, zigzag2).padded_to(32);
  EXPECT_THAT(layout.cu_seqlens(), ElementsAre(0, 2, 6, 12, 13));
  EXPECT_THAT(layout.cu_seqlens_padded(), ElementsAre(0, 4, 8, 16, 32));
  EXPECT_EQ(layout.max_seqlen(), 16);
  EXPECT_EQ(layout.local_rows(), 16);
}

TEST(PackedLayout, padded_to_its_own_rows_is_itself) {
  const PackedLayout layout(Lengths{2, 4}, 4, zigzag2);
  EXPECT_EQ(layout.padded_to(8), layout);
  EXPECT_EQ(PackedLayout().padded_to(0), PackedLayout());
}

TEST(PackedLayout, cannot_be_padded_to_less_or_to_a_part_of_the_alignment) {
  const PackedLayout layout(Lengths{2, 4, 6, 1}, 4, zigzag2);
  EXPECT_THROW((void)layout.padded_to(16), InputError);
  EXPECT_THROW((void)layout.padded_to(26), InputError);
  EXPECT_THROW((void)layout.padded_to(max_rows + 1), LimitError);
  EXPECT_THROW((void)PackedLayout().padded_to(4), InputError);
}

TEST(PackedRuns, exclude_padding) {
  const PackedLayout layout(Lengths{2, 6}, 4, zigzag2);
  EXPECT_THAT(packed_runs(layout, CpRank{0}), ElementsAre(PackedRun{0, {0, 1}, 0}, PackedRun{1, {0, 2}, 2}));
  EXPECT_THAT(packed_runs(layout, CpRank{1}), ElementsAre(PackedRun{0, {1, 2}, 0}, PackedRun{1, {2, 6}, 2}));
}

TEST(PackedRuns, are_empty_without_tokens) {
  EXPECT_THAT(packed_runs(PackedLayout(), CpRank{0}), IsEmpty());
  EXPECT_THAT(packed_runs(PackedLayout(Lengths{0, 0}, 4, zigzag2), CpRank{1}), IsEmpty());
}

RC_GTEST_PROP(PackedRuns, over_all_ranks_hold_every_true_token_exactly_once, ()) {
  const PackedLayout layout = arbitrary_layout();
  std::vector<int> holders(static_cast<std::size_t>(layout.num_tokens()));
  for (const CpRank rank : all_ranks(layout.cp())) {
    for (const PackedRun& run : packed_runs(layout, rank)) {
      RC_ASSERT(!run.sequence.empty());
      RC_ASSERT(run.sequence.end <= layout.length(run.index));
      const std::int64_t start = layout.cu_seqlens()[static_cast<std::size_t>(run.index)];
      for (std::int64_t t = run.sequence.begin; t < run.sequence.end; ++t) {
        ++holders[static_cast<std::size_t>(start + t)];
      }
    }
  }
  RC_ASSERT(holders == std::vector<int>(holders.size(), 1));
}

RC_GTEST_PROP(PackedRuns, stand_in_local_order_within_their_sequences, ()) {
  const PackedLayout layout = arbitrary_layout();
  for (const CpRank rank : all_ranks(layout.cp())) {
    std::int64_t covered = 0;
    for (const PackedRun& run : packed_runs(layout, rank)) {
      const RowRange home = layout.local_range(run.index);
      RC_ASSERT(run.local >= covered);
      RC_ASSERT(run.local >= home.begin);
      covered = run.local + run.sequence.size();
      RC_ASSERT(covered <= home.end);
    }
  }
}

// The aligned rows of a rank are those listed in partitioned_indices; the rows of a run must be where it
// specifies.
RC_GTEST_PROP(PackedRuns, agree_with_the_partitioned_indices, ()) {
  const PackedLayout layout = arbitrary_layout();
  for (const CpRank rank : all_ranks(layout.cp())) {
    const auto indices = partitioned_indices(layout.cu_seqlens_padded(), layout.cp(), rank);
    for (const PackedRun& run : packed_runs(layout, rank)) {
      const std::int64_t start = layout.cu_seqlens_padded()[static_cast<std::size_t>(run.index)];
      for (std::int64_t k = 0; k < run.sequence.size(); ++k) {
        RC_ASSERT(indices[static_cast<std::size_t>(run.local + k)] == start + run.sequence.begin + k);
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel
