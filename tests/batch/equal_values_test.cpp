#include "batch/equal_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;

Column texts(const std::vector<std::string>& values) {
  std::vector<std::int64_t> counts;
  std::string all;
  for (const std::string& value : values) {
    counts.push_back(std::ssize(value));
    all += value;
  }
  Column column({"source", DType::uint8, FieldKind::text, {}}, SampleRows::from_counts(counts));
  std::ranges::copy(std::as_bytes(std::span(all)), column.bytes().begin());
  return column;
}

std::uint64_t always_7(std::span<const std::byte> /*bytes*/) {
  return 7;
}

TEST(EqualValues, refer_to_the_first_sample_with_the_same_bytes) {
  EXPECT_THAT(first_equal_samples(texts({"cat", "dog", "cat", "", "cats", "dog", ""})),
              ElementsAre(0, 1, 0, 3, 4, 1, 3));
}

TEST(EqualValues, are_compared_byte_by_byte_if_hashes_collide) {
  const Column column = texts({"cat", "dog", "cat", "", "cats", "dog", ""});
  EXPECT_EQ(first_equal_samples(column, always_7), first_equal_samples(column));
}

TEST(EqualValues, have_equal_numbers_of_rows_even_if_rows_have_no_bytes) {
  const Column column({"nothing", DType::int32, FieldKind::rows, {0}},
                      SampleRows::from_counts(std::vector<std::int64_t>{2, 0, 2, 1}));
  EXPECT_THAT(first_equal_samples(column), ElementsAre(0, 1, 0, 3));
}

TEST(RowsInCommon, are_ranges_that_several_samples_may_share) {
  const SampleRows rows = SampleRows::shared({{2, 5}, {0, 2}, {2, 5}, {0, 0}}, 9);
  EXPECT_TRUE(rows.are_shared());
  EXPECT_EQ(rows.size(), 4);
  EXPECT_EQ(rows.rows(), 9) << "all that there are";
  EXPECT_EQ(rows[2], (RowRange{2, 5}));
  EXPECT_NE(SampleRows::shared({{0, 2}}, 2), SampleRows::from_offsets({0, 2}));
}

TEST(RowsInCommon, ranges_outside_of_the_rows_are_refused) {
  for (const RowRange range : {RowRange{-1, 1}, {2, 1}, {0, 4}})
    EXPECT_THROW((void)SampleRows::shared({range}, 3), InputError);
}

TEST(RowsInCommon, can_be_copied_so_that_each_sample_has_its_own) {
  Column pool = texts({"dog", "bird", "cat"});
  const Column column = pool.make_borrowing_copy(SampleRows::shared({{7, 10}, {0, 3}, {7, 10}, {0, 0}}, 10));
  EXPECT_EQ(column.bytes().data(), std::as_const(pool).bytes().data()) << "lies where it lay";
  EXPECT_EQ(with_separate_rows(column), texts({"cat", "dog", "cat", ""}));
}

TEST(RowsInCommon, are_rejected_in_input_batches) {
  RaggedBatch batch({{SampleId{0}, 0, 1, 1}});
  Column pool = texts({"dog"});
  EXPECT_THROW(batch.add_field(pool.make_borrowing_copy(SampleRows::shared({{0, 3}}, 3))), InputError);
}

}  // namespace
}  // namespace evenkeel
