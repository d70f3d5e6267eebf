#include "evenkeel/pack/cp_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::zigzag2;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr CpGroup contiguous2{2, CpLayout::contiguous};

std::vector<std::int64_t> rows_of(const CpRuns& runs) {
  std::vector<std::int64_t> rows;
  for (const RowRange& run : runs) {
    for (std::int64_t row = run.begin; row < run.end; ++row) rows.push_back(row);
  }
  return rows;
}

/// Returns the score entries of causal attention that these query rows need: row t attends to t + 1 keys.
std::int64_t causal_entries(const CpRuns& runs) {
  std::int64_t entries = 0;
  for (const std::int64_t row : rows_of(runs)) entries += row + 1;
  return entries;
}

TEST(SequenceAlignment, is_2_cp_tp_for_zigzag_and_tp_cp_for_contiguous) {
  EXPECT_EQ(sequence_alignment(1, zigzag2), 4);
  EXPECT_EQ(sequence_alignment(3, zigzag2), 12);
  EXPECT_EQ(sequence_alignment(3, contiguous2), 6);
}

TEST(SequenceAlignment, is_tp_without_context_parallelism) {
  EXPECT_EQ(sequence_alignment(4, {1, CpLayout::zigzag}), 4);
  EXPECT_EQ(sequence_alignment(4, {1, CpLayout::contiguous}), 4);
}

TEST(SequenceAlignment, takes_the_least_common_multiple_with_the_users_number) {
  EXPECT_EQ(sequence_alignment(1, zigzag2, 16), 16);
  EXPECT_EQ(sequence_alignment(3, zigzag2, 16), 48);
  EXPECT_EQ(sequence_alignment(3, {1, CpLayout::zigzag}, 16), 48);
}

TEST(SequenceAlignment, refuses_sizes_below_one) {
  EXPECT_THROW((void)sequence_alignment(0, zigzag2), InputError);
  EXPECT_THROW((void)sequence_alignment(1, {0, CpLayout::zigzag}), InputError);
  EXPECT_THROW((void)sequence_alignment(1, zigzag2, 0), InputError);
}

TEST(SequenceAlignment, refuses_what_int32_cannot_hold) {
  constexpr int largest = std::numeric_limits<int>::max();
  EXPECT_EQ(sequence_alignment(largest, {1, CpLayout::zigzag}), largest);
  EXPECT_THROW((void)sequence_alignment(largest, {largest, CpLayout::zigzag}), LimitError);
  EXPECT_THROW((void)sequence_alignment(65536, {1, CpLayout::zigzag}, 65537), LimitError);
  EXPECT_THROW((void)sequence_alignment(1, zigzag2, std::numeric_limits<std::int64_t>::max()), LimitError);
}

TEST(CpRuns, zigzag_gives_rank_r_chunks_r_and_mirrored_r) {
  EXPECT_THAT(cp_runs(8, zigzag2, CpRank{0}), ElementsAre(RowRange{0, 2}, RowRange{6, 8}));
  EXPECT_THAT(cp_runs(8, {4, CpLayout::zigzag}, CpRank{1}), ElementsAre(RowRange{1, 2}, RowRange{6, 7}));
}

TEST(CpRuns, zigzags_last_rank_has_its_two_chunks_in_one_run) {
  EXPECT_THAT(cp_runs(8, zigzag2, CpRank{1}), ElementsAre(RowRange{2, 6}));
}

TEST(CpRuns, contiguous_gives_rank_r_the_rth_part) {
  EXPECT_THAT(cp_runs(8, contiguous2, CpRank{0}), ElementsAre(RowRange{0, 4}));
  EXPECT_THAT(cp_runs(8, contiguous2, CpRank{1}), ElementsAre(RowRange{4, 8}));
}

TEST(CpRuns, one_rank_has_the_whole_sequence) {
  EXPECT_THAT(cp_runs(7, {1, CpLayout::zigzag}, CpRank{0}), ElementsAre(RowRange{0, 7}));
}

TEST(CpRuns, an_empty_sequence_has_no_runs) {
  EXPECT_EQ(cp_runs(0, zigzag2, CpRank{1}).size(), 0U);
}

TEST(CpRuns, a_length_that_cannot_be_cut_evenly_is_an_error_that_names_it) {
  try {
    (void)cp_runs(6, zigzag2, CpRank{0});
    FAIL() << "6 rows are not 4 equal chunks";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("6 rows"));
    EXPECT_THAT(error.what(), HasSubstr("4 equal chunks"));
  }
  EXPECT_THROW((void)cp_runs(3, contiguous2, CpRank{0}), InputError);
  EXPECT_THROW((void)cp_runs(-4, zigzag2, CpRank{0}), InputError);
}

TEST(CpRuns, a_rank_outside_the_group_is_an_error) {
  EXPECT_THROW((void)cp_runs(8, zigzag2, CpRank{2}), InputError);
  EXPECT_THROW((void)cp_runs(8, zigzag2, CpRank{-1}), InputError);
}

RC_GTEST_PROP(CpRuns, of_all_ranks_partition_the_sequence_into_equal_parts, ()) {
  const CpGroup cp = arbitrary_cp();
  const std::int64_t length = cp.chunks() * *rc::gen::inRange<std::int64_t>(0, 50);
  std::vector<int> holders(static_cast<std::size_t>(length));
  for (const CpRank rank : all_ranks(cp)) {
    const std::vector<std::int64_t> rows = rows_of(cp_runs(length, cp, rank));
    RC_ASSERT(static_cast<std::int64_t>(rows.size()) == length / cp.size);
    RC_ASSERT(std::ranges::is_sorted(rows));
    for (const std::int64_t row : rows) ++holders[static_cast<std::size_t>(row)];
  }
  RC_ASSERT(std::ranges::all_of(holders, [](int count) { return count == 1; }));
}

RC_GTEST_PROP(CpRuns, are_not_empty_and_do_not_touch, ()) {
  const CpGroup cp = arbitrary_cp();
  const std::int64_t length = cp.chunks() * *rc::gen::inRange<std::int64_t>(1, 50);
  for (const CpRank rank : all_ranks(cp)) {
    std::int64_t previous_end = -1;
    for (const RowRange& run : cp_runs(length, cp, rank)) {
      RC_ASSERT(!run.empty());
      RC_ASSERT(run.begin > previous_end);
      previous_end = run.end;
    }
  }
}

RC_GTEST_PROP(CpRuns, zigzag_gives_every_rank_the_same_causal_attention, ()) {
  const CpGroup cp{*rc::gen::inRange(1, 40), CpLayout::zigzag};
  const std::int64_t length = cp.chunks() * *rc::gen::inRange<std::int64_t>(0, 50);
  const std::int64_t all = length * (length + 1) / 2;
  for (const CpRank rank : all_ranks(cp)) {
    RC_ASSERT(causal_entries(cp_runs(length, cp, rank)) * cp.size == all);
  }
}

// ROLL's packing document, section 2.2.2: a sequence of 6 tokens over two ranks.
TEST(CausalLoad, is_6_and_15_for_contiguous_halves_of_6_rows) {
  EXPECT_EQ(causal_entries(cp_runs(6, contiguous2, CpRank{0})), 6);
  EXPECT_EQ(causal_entries(cp_runs(6, contiguous2, CpRank{1})), 15);
}

TEST(CausalLoad, is_equal_for_zigzag_on_6_rows_padded_to_8) {
  const std::int64_t aligned = align_up(6, sequence_alignment(1, zigzag2));
  ASSERT_EQ(aligned, 8);
  EXPECT_EQ(causal_entries(cp_runs(aligned, zigzag2, CpRank{0})), 18);
  EXPECT_EQ(causal_entries(cp_runs(aligned, zigzag2, CpRank{1})), 18);
}

TEST(PartitionedIndices, are_global_rows_in_local_order) {
  const std::vector<std::int32_t> cu{0, 8, 12};
  EXPECT_THAT(partitioned_indices(cu, zigzag2, CpRank{0}), ElementsAre(0, 1, 6, 7, 8, 11));
  EXPECT_THAT(partitioned_indices(cu, zigzag2, CpRank{1}), ElementsAre(2, 3, 4, 5, 9, 10));
}

TEST(PartitionedIndices, skip_empty_sequences) {
  EXPECT_THAT(partitioned_indices(std::vector<std::int32_t>{0, 4, 4, 8}, zigzag2, CpRank{0}),
              ElementsAre(0, 3, 4, 7));
  EXPECT_THAT(partitioned_indices(std::vector<std::int32_t>{0}, zigzag2, CpRank{0}), ElementsAre());
}

// References drop the tokens that do not fill a chunk; Evenkeel never drops tokens silently.
TEST(PartitionedIndices, reject_a_length_that_cannot_be_cut_evenly) {
  EXPECT_THROW((void)partitioned_indices(std::vector<std::int32_t>{0, 5}, zigzag2, CpRank{0}), InputError);
  EXPECT_THROW((void)partitioned_indices(std::vector<std::int32_t>{0, 6, 10}, zigzag2, CpRank{0}),
               InputError);
  EXPECT_THAT(partitioned_indices(std::vector<std::int32_t>{0, 3, 5}, {1, CpLayout::zigzag}, CpRank{0}),
              ElementsAre(0, 1, 2, 3, 4));
}

TEST(PartitionedIndices, require_cumulative_lengths_that_start_at_zero_and_never_decrease) {
  EXPECT_THROW((void)partitioned_indices(std::vector<std::int32_t>{}, zigzag2, CpRank{0}), InputError);
  EXPECT_THROW((void)partitioned_indices(std::vector<std::int32_t>{4, 8}, zigzag2, CpRank{0}), InputError);
  EXPECT_THROW((void)partitioned_indices(std::vector<std::int32_t>{0, 8, 4}, zigzag2, CpRank{0}), InputError);
  EXPECT_THROW((void)partitioned_indices(std::vector<std::int32_t>{0}, zigzag2, CpRank{2}), InputError);
}

RC_GTEST_PROP(PartitionedIndices, follow_the_runs_of_every_sequence, ()) {
  const PackedLayout layout = arbitrary_layout();
  for (const CpRank rank : all_ranks(layout.cp())) {
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      for (const std::int64_t row : rows_of(cp_runs(layout.aligned_length(i), layout.cp(), rank))) {
        expected.push_back(layout.cu_seqlens_padded()[static_cast<std::size_t>(i)] + row);
      }
    }
    RC_ASSERT(partitioned_indices(layout.cu_seqlens_padded(), layout.cp(), rank) == expected);
  }
}

TEST(CuSeqlensOnCpRank, count_true_tokens_of_each_half) {
  const std::vector<std::int32_t> cu{0, 3, 18};
  const std::vector<std::int32_t> padded{0, 4, 20};
  const CuSeqlensOnRank rank0 = cu_seqlens_on_cp_rank(cu, padded, 2, CpRank{0});
  EXPECT_THAT(rank0.first, ElementsAre(0, 1, 5));
  EXPECT_THAT(rank0.second, ElementsAre(0, 0, 3));
  EXPECT_THAT(rank0.both, ElementsAre(0, 1, 8));
  const CuSeqlensOnRank rank1 = cu_seqlens_on_cp_rank(cu, padded, 2, CpRank{1});
  EXPECT_THAT(rank1.second, ElementsAre(0, 1, 5));
}

TEST(CuSeqlensOnCpRank, refuses_inconsistent_lengths) {
  const std::vector<std::int32_t> cu{0, 5};
  EXPECT_THROW((void)cu_seqlens_on_cp_rank(cu, std::vector<std::int32_t>{0, 4}, 2, CpRank{0}), InputError);
  EXPECT_THROW((void)cu_seqlens_on_cp_rank(cu, std::vector<std::int32_t>{0, 6}, 2, CpRank{0}), InputError);
  EXPECT_THROW((void)cu_seqlens_on_cp_rank(cu, std::vector<std::int32_t>{0, 8, 8}, 2, CpRank{0}), InputError);
  EXPECT_THROW((void)cu_seqlens_on_cp_rank(cu, std::vector<std::int32_t>{0, 8}, 2, CpRank{2}), InputError);
}

RC_GTEST_PROP(CuSeqlensOnCpRank, sum_to_the_true_lengths_and_to_the_packed_runs, ()) {
  const CpGroup cp{*rc::gen::inRange(1, 9), CpLayout::zigzag};
  const PackedLayout layout(arbitrary_lengths(), 2 * std::int64_t{cp.size}, cp);
  std::vector<std::int32_t> sums(layout.cu_seqlens().size());
  for (const CpRank rank : all_ranks(cp)) {
    const CuSeqlensOnRank on =
        cu_seqlens_on_cp_rank(layout.cu_seqlens(), layout.cu_seqlens_padded(), cp.size, rank);
    std::int64_t tokens = 0;
    for (const PackedRun& run : packed_runs(layout, rank)) tokens += run.sequence.size();
    RC_ASSERT(on.both.back() == tokens);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      RC_ASSERT(on.both[i] == on.first[i] + on.second[i]);
      sums[i] += on.both[i];
    }
  }
  RC_ASSERT(std::ranges::equal(sums, layout.cu_seqlens()));
}

}  // namespace
}  // namespace evenkeel
