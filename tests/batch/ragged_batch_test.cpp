#include "evenkeel/batch/ragged_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string_view>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SampleShape shape(std::int64_t id, std::int64_t prompt, std::int64_t response) {
  return {SampleId{id}, 0, prompt, response};
}

TEST(RaggedBatch, offsets_are_prefix_sums_from_zero) {
  const RaggedBatch batch({shape(0, 2, 1), shape(1, 0, 2)});
  EXPECT_THAT(batch.token_offsets(), ElementsAre(0, 3, 5));
  EXPECT_THAT(batch.response_offsets(), ElementsAre(0, 1, 3));
  EXPECT_EQ(batch.num_tokens(), 5);
}

TEST(RaggedBatch, a_sample_is_a_group_by_itself_unless_it_names_one) {
  const RaggedBatch batch({{.id = SampleId{4}, .prompt = 1}, {.id = SampleId{5}, .prompt = 1}, {.group = 7}});
  EXPECT_EQ(batch.samples()[0].group, own_group(4));
  EXPECT_EQ(batch.samples()[1].group, own_group(5));
  EXPECT_EQ(batch.samples()[2].group, 7U);
}

TEST(RaggedBatch, an_empty_batch_has_one_offset_and_no_rows) {
  const RaggedBatch batch;
  EXPECT_EQ(batch.size(), 0);
  EXPECT_THAT(batch.token_offsets(), ElementsAre(0));
  EXPECT_EQ(batch.rows_of(FieldKind::token), 0);
}

TEST(RaggedBatch, rows_of_a_sample_depend_on_the_kind) {
  const RaggedBatch batch({shape(0, 2, 1), shape(1, 3, 0), shape(2, 1, 4)});
  EXPECT_EQ(batch.rows_of(FieldKind::token, 2), (RowRange{6, 11}));
  EXPECT_EQ(batch.rows_of(FieldKind::response_token, 1), (RowRange{1, 1}));
  EXPECT_EQ(batch.rows_of(FieldKind::response_token, 2), (RowRange{1, 5}));
  EXPECT_EQ(batch.rows_of(FieldKind::sample, 2), (RowRange{2, 3}));
}

TEST(RaggedBatch, a_negative_length_is_an_error_that_names_the_sample) {
  try {
    RaggedBatch({shape(0, 1, 1), shape(7, 3, -2)});
    FAIL() << "a negative length must throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 7"));
    EXPECT_THAT(error.what(), HasSubstr("-2"));
  }
}

constexpr std::int64_t half = std::int64_t{1} << 62;

TEST(RaggedBatch, lengths_that_add_up_past_64_bits_are_an_error_that_names_the_sample) {
  for (const std::vector<SampleShape>& shapes :
       {std::vector{shape(0, 1, 1), shape(7, half, half)}, std::vector{shape(0, half, 0), shape(7, half, 0)},
        std::vector{shape(0, 0, half - 1), shape(1, half, 0), shape(7, 0, 1)},
        std::vector{shape(7, std::numeric_limits<std::int64_t>::max(), 1)}}) {
    try {
      (void)RaggedBatch(shapes);
      FAIL() << "so many tokens must throw";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("sample 7"));
      EXPECT_THAT(error.what(), HasSubstr("2^63"));
    }
  }
  EXPECT_EQ(RaggedBatch({shape(0, half, half - 1)}).num_tokens(), std::numeric_limits<std::int64_t>::max());
}

TEST(FieldSpec, rows_too_large_for_memory_are_an_error_that_names_the_field) {
  const auto spec = [](DType dtype, std::vector<std::int64_t> trailing) {
    return FieldSpec{"hidden", dtype, FieldKind::token, std::move(trailing)};
  };
  for (const FieldSpec& wrong :
       {spec(DType::uint8, {half, 2}), spec(DType::uint8, {half, half, half}), spec(DType::int64, {half / 4}),
        spec(DType::float16, {-1}), spec(DType::float16, {-1, -1}), spec(DType::float16, {0, -1})}) {
    try {
      (void)wrong.row_bytes();
      FAIL() << "such a row must throw";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("field 'hidden'"));
    }
    EXPECT_THROW((void)Column(wrong, 0), InputError);
    EXPECT_THROW((void)Column::uninitialized(wrong, 0), InputError);
    EXPECT_THROW((void)RaggedBatch().add_field(wrong), InputError);
  }
  EXPECT_EQ(spec(DType::uint8, {half}).row_bytes(), static_cast<std::size_t>(half));
  EXPECT_EQ(spec(DType::int64, {half, half, 0}).row_elements(), 0);
}

TEST(Column, a_size_too_large_for_memory_is_an_error) {
  const FieldSpec row_of_many{"hidden", DType::uint8, FieldKind::token, {half}};
  EXPECT_THROW((void)Column(row_of_many, 2), InputError);
  EXPECT_THROW((void)Column::uninitialized(row_of_many, 4), InputError);
  EXPECT_THROW((void)Column::borrowing(row_of_many, 2, nullptr), InputError);
  Column column({"x", DType::float64, FieldKind::sample, {}}, 3);
  EXPECT_THROW(column.resize(-1), InputError);
  EXPECT_THROW(column.resize(half), InputError);
  EXPECT_EQ(column.rows(), 3);
  EXPECT_EQ(column.bytes().size(), 24U);
}

TEST(RaggedBatch, every_kind_and_trailing_shape_gets_its_rows) {
  RaggedBatch batch({shape(0, 2, 1), shape(1, 0, 2)});
  EXPECT_EQ(batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).bytes().size(), 5 * 8U);
  EXPECT_EQ(batch.add_field({"hidden", DType::bfloat16, FieldKind::token, {4, 3}}).bytes().size(), 5 * 24U);
  EXPECT_EQ(batch.add_field({"advantages", DType::float32, FieldKind::response_token, {}}).rows(), 3);
  EXPECT_EQ(batch.add_field({"reward", DType::float64, FieldKind::sample, {}}).rows(), 2);
  EXPECT_EQ(batch.add_field({"nothing", DType::float64, FieldKind::token, {0}}).bytes().size(), 0U);
}

const FieldSpec patches{"patches", DType::float16, FieldKind::rows, {2, 3}};

TEST(SampleRows, are_prefix_sums_of_the_samples_counts) {
  const SampleRows rows = SampleRows::from_counts(std::vector<std::int64_t>{2, 0, 3});
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 2, 2, 5));
  EXPECT_EQ(rows.size(), 3);
  EXPECT_EQ(rows.rows(), 5);
  EXPECT_EQ(rows[1], (RowRange{2, 2}));
  EXPECT_EQ(rows[2], (RowRange{2, 5}));
  EXPECT_EQ(SampleRows::from_offsets({0, 2, 2, 5}), rows);
}

TEST(SampleRows, without_samples_have_one_offset) {
  for (const SampleRows& rows : {SampleRows(), SampleRows::from_counts({}), SampleRows::from_offsets({0})}) {
    EXPECT_EQ(rows.size(), 0);
    EXPECT_THAT(rows.offsets(), ElementsAre(0));
  }
}

TEST(SampleRows, reject_negative_counts_and_sums_beyond_64_bits) {
  EXPECT_THROW((void)SampleRows::from_counts(std::vector<std::int64_t>{1, -1}), InputError);
  EXPECT_THROW((void)SampleRows::from_counts(std::vector{half, half}), InputError);
  EXPECT_THROW((void)SampleRows::from_offsets({}), InputError);
  EXPECT_THROW((void)SampleRows::from_offsets({1, 2}), InputError);
  EXPECT_THROW((void)SampleRows::from_offsets({0, 3, 2}), InputError);
}

TEST(RaggedBatch, a_counted_field_has_the_rows_counted_by_its_samples) {
  RaggedBatch batch({shape(0, 2, 1), shape(1, 0, 0), shape(2, 1, 1)});
  const Column& column =
      batch.add_field(Column(patches, SampleRows::from_counts(std::vector<std::int64_t>{2, 0, 3})));
  EXPECT_EQ(column.rows(), 5);
  EXPECT_EQ(column.bytes().size(), 5 * 12U);
  EXPECT_EQ(batch.rows_of(column, 1), (RowRange{2, 2}));
  EXPECT_EQ(batch.rows_of(column, 2), (RowRange{2, 5}));
}

TEST(RaggedBatch, a_counted_field_with_another_number_of_samples_is_refused) {
  RaggedBatch batch({shape(0, 2, 1), shape(1, 0, 0)});
  for (const std::vector<std::int64_t>& counts : {std::vector<std::int64_t>{}, {3}, {1, 1, 1}}) {
    try {
      batch.add_field(Column(patches, SampleRows::from_counts(counts)));
      FAIL() << "a field of " << counts.size() << " samples must throw";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("field 'patches'"));
      EXPECT_THAT(error.what(), HasSubstr("the batch has 2"));
    }
  }
  EXPECT_THROW(batch.add_field(patches), InputError);
  EXPECT_EQ(RaggedBatch().add_field(patches).rows(), 0);
}

TEST(Column, a_counted_field_is_equal_only_if_its_samples_are) {
  const auto of = [](std::vector<std::int64_t> counts) {
    return Column(patches, SampleRows::from_counts(counts));
  };
  EXPECT_EQ(of({2, 1}), of({2, 1}));
  EXPECT_NE(of({2, 1}), of({1, 2}));
  Column lender = of({2, 1});
  EXPECT_EQ(Column::borrowing(patches, lender.samples(), lender.lend()), lender);
  EXPECT_EQ(lender.make_borrowing_copy(), lender);
  EXPECT_EQ(lender.make_borrowing_copy().samples(), lender.samples());
  EXPECT_EQ(Column::uninitialized(patches, lender.samples()).samples(), lender.samples());
}

TEST(RaggedBatch, a_name_can_be_used_once) {
  RaggedBatch batch({shape(0, 1, 1)});
  batch.add_field({"reward", DType::float32, FieldKind::sample, {}});
  EXPECT_THROW(batch.add_field({"reward", DType::int64, FieldKind::token, {}}), InputError);
}

TEST(RaggedBatch, a_field_with_the_wrong_rows_is_refused) {
  RaggedBatch batch({shape(0, 1, 1)});
  EXPECT_THROW(batch.add_field(Column({"labels", DType::int64, FieldKind::token, {}}, 3)), InputError);
}

TEST(RaggedBatch, asking_for_an_unknown_field_lists_the_known_ones) {
  RaggedBatch batch({shape(0, 1, 1)});
  batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  EXPECT_EQ(batch.find("labels"), nullptr);
  try {
    (void)batch.at("labels");
    FAIL() << "an unknown field must throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("input_ids"));
  }
}

TEST(Column, is_zero_in_unwritten_rows) {
  Column column({"logits", DType::float32, FieldKind::token, {3}}, 4);
  EXPECT_THAT(column.values<float>(), testing::Each(0.0F));
  std::ranges::fill(column.values<float>(), 1.0F);
  column.resize(2);
  column.resize(5);
  EXPECT_THAT(column.values<float>().first(6), testing::Each(1.0F));
  EXPECT_THAT(column.values<float>().subspan(6), testing::Each(0.0F));
}

TEST(Column, can_be_allocated_without_being_written) {
  Column column = Column::uninitialized({"weights", DType::float64, FieldKind::sample, {}}, 3);
  ASSERT_EQ(column.values<double>().size(), 3);
  std::ranges::fill(column.values<double>(), 0.5);
  EXPECT_EQ(column.rows(), 3);
  EXPECT_THAT(column.values<double>(), testing::Each(0.5));
}

Column three_weights() {
  Column column({"weights", DType::float64, FieldKind::sample, {}}, 3);
  std::ranges::copy(std::vector{0.5, 1.0, 2.0}, column.values<double>().begin());
  return column;
}

TEST(Column, lends_rows_that_outlive_it) {
  auto column = std::make_unique<Column>(three_weights());
  const std::byte* const address = std::as_const(*column).row(0);
  const Column borrower = Column::borrowing(column->spec(), 3, column->lend());
  EXPECT_TRUE(borrower.is_borrowed());
  EXPECT_EQ(borrower, *column);
  EXPECT_EQ(column->make_borrowing_copy(), borrower);
  column.reset();
  EXPECT_EQ(borrower.row(0), address);
  EXPECT_EQ(borrower, three_weights());
}

TEST(Column, copies_lent_rows_before_writing) {
  Column lender = three_weights();
  const Column borrower = Column::borrowing(lender.spec(), 3, lender.lend());
  Column second = borrower;
  lender.values<double>()[0] = 7;
  second.resize(2);
  EXPECT_EQ(borrower, three_weights());
  EXPECT_THAT(std::as_const(lender).values<double>(), testing::ElementsAre(7.0, 1.0, 2.0));
  EXPECT_THAT(std::as_const(second).values<double>(), testing::ElementsAre(0.5, 1.0));
  EXPECT_FALSE(lender.is_borrowed());
}

TEST(Column, without_rows_can_be_lent_too) {
  Column none({"weights", DType::float64, FieldKind::sample, {}}, 0);
  EXPECT_EQ(Column::borrowing(none.spec(), 0, none.lend()), none);
}

TEST(Column, is_read_as_its_own_element_type_only) {
  Column column({"x", DType::int32, FieldKind::token, {2}}, 3);
  column.values<std::int32_t>()[5] = 9;
  EXPECT_EQ(column.values<std::int32_t>().size(), 6U);
  EXPECT_EQ(*reinterpret_cast<const std::int32_t*>(column.row(2) + 4), 9);
  EXPECT_THROW((void)column.values<float>(), InputError);
}

TEST(DType, sizes_are_those_of_the_elements) {
  EXPECT_EQ(size_of(DType::boolean), 1U);
  EXPECT_EQ(size_of(DType::bfloat16), 2U);
  EXPECT_EQ(size_of(DType::float64), 8U);
  EXPECT_EQ(size_of(DType::int8), 1U);
  EXPECT_EQ(size_of(DType::int16), 2U);
  EXPECT_EQ(size_of(DType::uint16), 2U);
  EXPECT_EQ(size_of(DType::uint32), 4U);
  EXPECT_EQ(dtype_of<std::int64_t>, DType::int64);
}

TEST(DType, every_dtype_is_listed_once_with_a_unique_name) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < all_dtypes.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(all_dtypes[i]), i);
    names.insert(name_of(all_dtypes[i]));
  }
  EXPECT_EQ(names.size(), all_dtypes.size());
}

}  // namespace
}  // namespace evenkeel
