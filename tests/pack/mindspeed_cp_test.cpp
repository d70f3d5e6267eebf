#include "pack/mindspeed_cp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Columns = std::vector<std::int64_t>;

constexpr MindSpeedCp ring(int size) {
  return {size, MindSpeedCpAlgorithm::ring, 1, false};
}
constexpr MindSpeedCp ring_of_each_sequence(int size) {
  return {size, MindSpeedCpAlgorithm::ring, 1, true};
}
constexpr MindSpeedCp ulysses(int size) {
  return {size, MindSpeedCpAlgorithm::ulysses, 1, false};
}
constexpr MindSpeedCp hybrid(int size, int degree) {
  return {size, MindSpeedCpAlgorithm::hybrid, degree, false};
}

Columns held_by(const MindSpeedCp& cp, std::int64_t columns, int rank, const Columns& ends = {}) {
  return mindspeed_columns(cp, columns, ends, CpRank{rank});
}

template <typename Act>
std::string input_error_of(Act act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RingDegree, is_the_size_for_ring_1_for_ulysses_and_the_quotient_for_hybrid) {
  EXPECT_EQ(ring_degree(ring(4)), 4);
  EXPECT_EQ(ring_degree(ulysses(4)), 1);
  EXPECT_EQ(ring_degree(hybrid(4, 2)), 2);
}

// golden/README row 24: a degree equal to the size divides it.
TEST(RingDegree, accepts_a_ulysses_degree_of_the_whole_size) {
  EXPECT_EQ(ring_degree(hybrid(4, 4)), 1);
  EXPECT_EQ(held_by(hybrid(4, 4), 8, 1), held_by(ulysses(4), 8, 1));
}

TEST(RingDegree, names_the_numbers_that_must_divide) {
  EXPECT_THAT(input_error_of([] { (void)ring_degree(hybrid(4, 3)); }),
              HasSubstr("is 3; it must be at least 1 and divide the context-parallel size, 4"));
  EXPECT_THAT(input_error_of([] { (void)ring_degree(hybrid(4, 0)); }),
              HasSubstr("is 0; it must be at least 1"));
  EXPECT_THAT(input_error_of([] { (void)ring_degree(ring(0)); }), HasSubstr("is 0; it must be at least 1"));
}

TEST(MindSpeedColumns, include_all_columns_on_one_rank) {
  for (const MindSpeedCp& cp : {ring(1), ring_of_each_sequence(1), ulysses(1), hybrid(1, 1)}) {
    EXPECT_THAT(held_by(cp, 3, 0), ElementsAre(0, 1, 2));
  }
}

TEST(MindSpeedColumns, of_a_ring_are_two_chunks) {
  EXPECT_THAT(held_by(ring(2), 8, 0), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(held_by(ring(2), 8, 1), ElementsAre(2, 3, 4, 5));
}

TEST(MindSpeedColumns, of_ulysses_are_one_run_which_may_be_shorter_on_the_last_rank) {
  EXPECT_THAT(held_by(ulysses(4), 10, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(held_by(ulysses(4), 10, 3), ElementsAre(9));
}

// Row 22: the reference gives every rank the whole batch.
TEST(MindSpeedColumns, of_hybrid_are_a_run_of_the_rings_cut) {
  EXPECT_THAT(held_by(hybrid(4, 2), 8, 0), ElementsAre(0, 1));
  EXPECT_THAT(held_by(hybrid(4, 2), 8, 1), ElementsAre(6, 7));
  EXPECT_THAT(held_by(hybrid(4, 2), 8, 2), ElementsAre(2, 3));
  EXPECT_THAT(held_by(hybrid(4, 2), 8, 3), ElementsAre(4, 5));
}

TEST(MindSpeedColumns, cut_each_sequence_when_attention_masks_reset) {
  // Two sequences of 4 and 8 columns over two ranks: they end at 2 and 6 on one rank.
  for (const Columns& ends : {Columns{2, 6}, Columns{0, 2, 6}}) {
    EXPECT_THAT(held_by(ring_of_each_sequence(2), 12, 0, ends), ElementsAre(0, 3, 4, 5, 10, 11));
    EXPECT_THAT(held_by(ring_of_each_sequence(2), 12, 1, ends), ElementsAre(1, 2, 6, 7, 8, 9));
  }
}

// Row 23: the reference drops the two middle columns of a sequence of 10 over two ranks.
TEST(MindSpeedColumns, reject_a_sequence_that_cannot_be_cut_evenly) {
  EXPECT_THAT(input_error_of([] {
                (void)held_by(ring_of_each_sequence(2), 10, 0, {0, 5});
              }),
              HasSubstr("10 rows cannot be cut into 4 equal chunks"));
}

TEST(MindSpeedColumns, reject_batches_that_cannot_be_cut) {
  EXPECT_THAT(input_error_of([] { (void)held_by(ring(2), 10, 0); }), HasSubstr("10 rows"));
  EXPECT_THAT(input_error_of([] { (void)held_by(hybrid(4, 2), 10, 0); }), HasSubstr("10 rows"));
  EXPECT_THAT(input_error_of([] { (void)held_by(ulysses(8), 9, 0); }),
              HasSubstr("gives columns to only 5 of 8 ranks"));
  EXPECT_THAT(input_error_of([] { (void)held_by(ulysses(2), 0, 0); }),
              HasSubstr("gives columns to only 0 of 2 ranks"));
}

TEST(MindSpeedColumns, reject_sequence_ends_that_do_not_fit_the_batch) {
  EXPECT_THAT(input_error_of([] {
                (void)held_by(ring_of_each_sequence(2), 12, 0, {2, 4});
              }),
              HasSubstr("reach column 8 instead of 12"));
  EXPECT_THAT(input_error_of([] {
                (void)held_by(ring_of_each_sequence(2), 8, 0, {6, 4});
              }),
              HasSubstr("decrease"));
  EXPECT_THAT(input_error_of([] { (void)held_by(ring_of_each_sequence(2), 8, 0); }),
              HasSubstr("reach column 0 instead of 8"));
}

TEST(MindSpeedColumns, reject_a_rank_outside_the_group) {
  EXPECT_THAT(input_error_of([] { (void)held_by(ring(2), 8, 2); }),
              HasSubstr("is 2; it must be from 0 to 1"));
  EXPECT_THAT(input_error_of([] { (void)held_by(ulysses(2), 8, -1); }),
              HasSubstr("is -1; it must be from 0 to 1"));
}

RC_GTEST_PROP(MindSpeedColumns, of_all_ranks_have_every_column_once, ()) {
  const int degree = *rc::gen::inRange(1, 4);
  const int size = degree * *rc::gen::inRange(1, 5);
  const MindSpeedCp cp =
      *rc::gen::element(ring(size), ring_of_each_sequence(size), ulysses(size), hybrid(size, degree));
  Columns ends{0};
  for (const auto step : *rc::gen::container<Columns>(rc::gen::inRange<std::int64_t>(0, 9))) {
    ends.push_back(ends.back() + 2 * step);
  }
  ends.push_back(ends.back() + 2);
  const std::int64_t columns = ends.back() * size;
  Columns gathered;
  for (int rank = 0; rank < size; ++rank) {
    const Columns held = held_by(cp, columns, rank, ends);
    gathered.insert(gathered.end(), held.begin(), held.end());
  }
  std::ranges::sort(gathered);
  Columns all(static_cast<std::size_t>(columns));
  std::iota(all.begin(), all.end(), 0);
  RC_ASSERT(gathered == all);
}

}  // namespace
}  // namespace evenkeel
