#include "evenkeel/pack/packed_micro_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;

// ROLL's worked example: lengths 2, 4, 6 and 1, aligned to 4, on two CP ranks.
PackedMicroBatch roll_example() {
  return lay_out(
      {{SampleId{3}, 0, 0, 2}, {SampleId{5}, 0, 0, 4}, {SampleId{7}, 0, 0, 6}, {SampleId{9}, 0, 0, 1}},
      {4, 0, {2, CpLayout::zigzag}}, CpRank{0});
}

std::vector<int> numbers(std::int64_t count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(SequencesOf, have_the_rows_of_cu_seqlens_padded_divided_by_cp) {
  const PackedMicroBatch micro_batch = roll_example();
  std::vector<RowRange> rows;
  for (const SequenceView sequence : sequences_of(micro_batch)) rows.push_back(sequence.rows());
  EXPECT_THAT(rows, ElementsAre(RowRange{0, 2}, RowRange{2, 4}, RowRange{4, 8}, RowRange{8, 10}));
}

TEST(SequencesOf, view_their_part_of_local_values) {
  const PackedMicroBatch micro_batch = roll_example();
  std::vector<int> values = numbers(micro_batch.layout.local_rows());
  const SequenceView third = sequences_of(micro_batch)[2];
  EXPECT_EQ(third.sample().id, SampleId{7});
  EXPECT_THAT(third.of(std::span<const int>(values)), ElementsAre(4, 5, 6, 7));
  third.of(std::span<int>(values))[0] = -1;
  EXPECT_EQ(values[4], -1);
}

TEST(SequencesOf, view_rows_of_several_elements) {
  const PackedMicroBatch micro_batch = roll_example();
  const std::vector<int> values = numbers(2 * micro_batch.layout.local_rows());
  EXPECT_THAT(sequences_of(micro_batch)[1].of(std::span<const int>(values), 2), ElementsAre(4, 5, 6, 7));
}

TEST(SequencesOf, an_empty_micro_batch_has_one_filler) {
  const PackedMicroBatch micro_batch = lay_out({}, {4, 0, {}}, CpRank{0});
  ASSERT_EQ(std::ranges::distance(sequences_of(micro_batch)), 1);
  EXPECT_TRUE(sequences_of(micro_batch)[0].is_filler());
}

}  // namespace
}  // namespace evenkeel
