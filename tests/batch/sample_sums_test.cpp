#include "batch/sample_sums.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evenkeel/base/error.hpp"

namespace evenkeel::sample_sums_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns samples 7 and 9 with 1 + 2 and 2 + 0 tokens.
RaggedBatch two_samples() {
  return RaggedBatch({{SampleId{7}, 7, 1, 2}, {SampleId{9}, 9, 2, 0}});
}

template <typename T>
Column column(FieldKind kind, const std::vector<T>& values, std::vector<std::int64_t> trailing = {}) {
  const FieldSpec spec{"work", dtype_of<T>, kind, std::move(trailing)};
  const std::int64_t rows = std::ssize(values) / spec.row_elements();
  Column made = is_counted(kind) ? Column(spec, SampleRows::from_counts(std::vector{rows, std::int64_t{0}}))
                                 : Column(spec, rows);
  std::ranges::copy(values, made.values<T>().begin());
  return made;
}

TEST(SumsOfSamples, are_the_numbers_of_samples_and_sums_over_rows_tokens_and_dimensions) {
  const RaggedBatch batch = two_samples();
  EXPECT_THAT(sum_by_sample(batch, column<std::int64_t>(FieldKind::sample, {5, 0})), ElementsAre(5, 0));
  EXPECT_THAT(sum_by_sample(batch, column<std::uint8_t>(FieldKind::rows, {200, 100, 3})),
              ElementsAre(303, 0));
  EXPECT_THAT(sum_by_sample(batch, column<float>(FieldKind::token, {1, 0, 1, 1, 2})), ElementsAre(2, 3));
  EXPECT_THAT(sum_by_sample(batch, column<std::int16_t>(FieldKind::sample, {1, 2, 3, 4}, {2})),
              ElementsAre(3, 7));
  EXPECT_THAT(sum_by_sample(batch, column<double>(FieldKind::response_token, {4, 5})), ElementsAre(9, 0));
}

TEST(SumsOfSamples, reject_invalid_work_with_field_sample_and_number) {
  const auto refusal = [](const auto& values) {
    try {
      static_cast<void>(sum_by_sample(two_samples(), column(FieldKind::sample, values)));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal(std::vector<std::int32_t>{4, -3}),
            "field 'work': has -3 in sample 9, but balance.cost reads the work of samples from this field. "
            "Use whole "
            "numbers, 0 or more");
  EXPECT_THAT(refusal(std::vector<float>{0.5F, 1}), HasSubstr("has 0.5 in sample 7"));
  EXPECT_THAT(refusal(std::vector<double>{1, std::nan("")}), HasSubstr("nan in sample 9"));
  EXPECT_THAT(refusal(std::vector<double>{1, std::numeric_limits<double>::infinity()}),
              HasSubstr("inf in sample 9"));
  EXPECT_THAT(refusal(std::vector<double>{1e30, 1}), HasSubstr("adds up to 2^62 or more in sample 7"));
  EXPECT_THAT(refusal(std::vector<std::int64_t>{1, std::int64_t{1} << 62}), HasSubstr("in sample 9"));
  const RaggedBatch batch = two_samples();
  EXPECT_THROW((void)sum_by_sample(batch, column<std::uint8_t>(FieldKind::bytes, {1, 2})), InputError);
  EXPECT_THROW((void)sum_by_sample(batch, Column({"work", DType::float16, FieldKind::sample, {}}, 2)),
               InputError);
}

}  // namespace
}  // namespace evenkeel::sample_sums_test
