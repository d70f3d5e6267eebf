#include "service/step/sample_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;

/// Returns samples 5, 6 and 7 with prompt and response of 1 + 2, 2 + 0 and 0 + 2 tokens, which are 0, 1, 2,
/// ... in order.
RaggedBatch three_samples() {
  RaggedBatch batch({{SampleId{5}, 0, 1, 2}, {SampleId{6}, 1, 2, 0}, {SampleId{7}, 2, 0, 2}});
  Column& tokens = batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  for (std::size_t i = 0; i < 7; ++i) tokens.values<std::int64_t>()[i] = static_cast<std::int64_t>(i);
  const std::array counts{std::int64_t{1}, std::int64_t{0}, std::int64_t{2}};
  Column& rows =
      batch.add_field(Column({"spans", DType::int64, FieldKind::rows, {}}, SampleRows::from_counts(counts)));
  for (std::size_t i = 0; i < 3; ++i) rows.values<std::int64_t>()[i] = static_cast<std::int64_t>(10 + i);
  return batch;
}

void mask(RaggedBatch& batch, const std::vector<std::int64_t>& values) {
  Column& column =
      batch.add_field({std::string(loss_mask_field), DType::int64, FieldKind::response_token, {}});
  std::ranges::copy(values, column.values<std::int64_t>().begin());
}

std::vector<std::int64_t> ids_of(const RaggedBatch& batch) {
  std::vector<std::int64_t> ids;
  for (const SampleShape& sample : batch.samples()) ids.push_back(sample.id.value());
  return ids;
}

TEST(SampleFilter, keeps_samples_without_loss_by_default) {
  RaggedBatch batch = three_samples();
  EXPECT_EQ(apply_filter({}, false, batch), 0);
  EXPECT_EQ(batch.size(), 3);
}

TEST(SampleFilter, drops_samples_without_loss_with_all_of_their_rows) {
  const FilterSettings drop{.without_loss = WithoutLoss::drop};
  RaggedBatch batch = three_samples();
  batch.set_contexts({50, 60, 70});
  EXPECT_EQ(apply_filter(drop, false, batch), 1);
  EXPECT_THAT(batch.contexts(), ElementsAre(50, 70)) << "what precedes pieces of trees stays with them";
  EXPECT_THAT(ids_of(batch), ElementsAre(5, 7));
  EXPECT_THAT(batch.at(input_ids_field).values<std::int64_t>(), ElementsAre(0, 1, 2, 5, 6));
  EXPECT_THAT(batch.at("spans").values<std::int64_t>(), ElementsAre(10, 11, 12));
  EXPECT_EQ(apply_filter(drop, false, batch), 0);

  for (const bool shared : {false, true}) {
    RaggedBatch masked = three_samples();
    mask(masked, {0, 0, 1, 1});
    EXPECT_EQ(apply_filter(drop, shared, masked), 2);
    EXPECT_THAT(ids_of(masked), ElementsAre(7));
    RaggedBatch first = three_samples();
    mask(first, {0, 0, 1, 0});  // nothing predicts the first token of a sample
    EXPECT_EQ(apply_filter(drop, shared, first), 3);
    EXPECT_EQ(first.size(), 0);
  }
}

std::string refusal(const FilterSettings& filter, RaggedBatch batch) {
  try {
    static_cast<void>(apply_filter(filter, false, batch));
  } catch (const InputError& error) {
    return error.report().where + " " + error.report().message;
  }
  return "taken";
}

TEST(SampleFilter, names_the_first_sample_that_is_an_error) {
  EXPECT_EQ(refusal({.without_loss = WithoutLoss::error}, three_samples()),
            "sample 6 has no token that carries loss, but batch.without_loss is error");
  RaggedBatch batch = three_samples();
  mask(batch, {0, 0, 0, 1});
  EXPECT_EQ(refusal({.without_loss = WithoutLoss::error}, std::move(batch)),
            "sample 5 has no token that carries loss, but batch.without_loss is error");
}

TEST(SampleFilter, refuses_samples_above_the_maximum_length) {
  EXPECT_EQ(refusal({.max_length = 2}, three_samples()), "sample 5 has 3 tokens; batch.max_length is 2");
  EXPECT_EQ(refusal({.max_length = 3}, three_samples()), "taken");
  EXPECT_EQ(refusal({.too_long = TooLong::drop, .max_length = 2}, three_samples()), "taken");
}

}  // namespace
}  // namespace evenkeel
