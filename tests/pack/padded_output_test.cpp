#include "evenkeel/pack/padded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::ElementsAre;

RaggedBatch two_samples() {
  RaggedBatch batch({{SampleId{0}, 0, 2, 3}, {SampleId{1}, 0, 1, 1}});
  float next = 1;
  for (const FieldKind kind : {FieldKind::token, FieldKind::response_token}) {
    Column& column = batch.add_field({std::string(name_of(kind)), DType::float32, kind, {}});
    for (float& value : column.values<float>()) value = next++;
  }
  batch.add_field({"reward", DType::float32, FieldKind::sample, {}});
  return batch;
}

TEST(PadField, pads_every_samples_tokens_on_the_right) {
  const Column padded = pad_field(two_samples(), "token", 6);
  EXPECT_EQ(padded.spec().trailing, (std::vector<std::int64_t>{6}));
  EXPECT_EQ(padded.rows(), 2);
  EXPECT_THAT(padded.values<float>(), ElementsAre(1, 2, 3, 4, 5, 0, 6, 7, 0, 0, 0, 0));
}

TEST(PadField, response_tokens_have_no_prompt_and_use_the_given_pad_value) {
  const float pad = -1;
  const Column padded = pad_field(two_samples(), "response_token", 3, std::as_bytes(std::span(&pad, 1)));
  EXPECT_THAT(padded.values<float>(), ElementsAre(8, 9, 10, 11, -1, -1));
}

TEST(PadField, trailing_dimensions_stay_behind_the_padded_one) {
  RaggedBatch batch({{SampleId{0}, 0, 0, 2}});
  batch.add_field({"hidden", DType::int32, FieldKind::token, {3}});
  EXPECT_EQ(pad_field(batch, "hidden", 4).spec().trailing, (std::vector<std::int64_t>{4, 3}));
}

TEST(PadField, fields_that_cannot_be_padded_are_refused) {
  EXPECT_THROW((void)pad_field(two_samples(), "reward", 4), InputError);
  EXPECT_THROW((void)pad_field(two_samples(), "nothing", 4), InputError);
  EXPECT_THROW((void)pad_field(two_samples(), "token", 4), InputError);
}

}  // namespace
}  // namespace evenkeel
