#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step/sample_checks.hpp"

namespace evenkeel {
namespace {

/// Returns the error for a sample whose labels are a field of this form.
std::string refusal_of_labels(DType dtype, std::vector<std::int64_t> trailing) {
  RaggedBatch batch({SampleShape{}});
  batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  batch.add_field({std::string(labels_field), dtype, FieldKind::token, std::move(trailing)});
  try {
    require_valid_samples(batch);
  } catch (const InputError& error) {
    return error.report().message;
  }
  return "taken";
}

TEST(SampleChecks, describe_a_field_with_the_article_of_its_dtype) {
  const std::string must = "; it must have one int64 per token or response token";
  EXPECT_EQ(refusal_of_labels(DType::int64, {}), "taken");
  EXPECT_EQ(refusal_of_labels(DType::int64, {2}), "is an int64 token field with rows of shape [2]" + must);
  EXPECT_EQ(refusal_of_labels(DType::int32, {}), "is an int32 token field" + must);
  EXPECT_EQ(refusal_of_labels(DType::uint8, {}), "is a uint8 token field" + must);
  EXPECT_EQ(refusal_of_labels(DType::float32, {}), "is a float32 token field" + must);
  EXPECT_EQ(refusal_of_labels(DType::boolean, {}), "is a bool token field" + must);
}

TEST(SampleChecks, explain_how_to_widen_int32_tokens) {
  RaggedBatch batch({SampleShape{}});
  batch.add_field({std::string(input_ids_field), DType::int32, FieldKind::token, {}});
  try {
    require_valid_samples(batch);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.report().hint, testing::HasSubstr("astype('int64')"));
  }
}

/// Returns the error for a sample with a counted field that has one value of these bytes.
std::string refusal_of(const FieldSpec& spec, std::string_view value, const char* beside = nullptr) {
  RaggedBatch batch({SampleShape{SampleId{7}, 0, 0, 0}});
  batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  const auto rows = static_cast<std::int64_t>(value.size() / size_of(spec.dtype));
  Column& column = batch.add_field(Column(spec, SampleRows::from_counts(std::vector{rows})));
  std::ranges::copy(std::as_bytes(std::span(value)), column.bytes().begin());
  if (beside != nullptr) batch.add_field({beside, DType::int64, FieldKind::sample, {}});
  try {
    require_valid_samples(batch);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

TEST(SampleChecks, require_utf8_in_text_and_nothing_in_bytes) {
  EXPECT_EQ(refusal_of({"source", DType::uint8, FieldKind::text, {}}, "gsm8k \xc3\xa4"), "taken");
  EXPECT_EQ(refusal_of({"source", DType::uint8, FieldKind::bytes, {}}, "\xff\xfe"), "taken");
  const std::string said = refusal_of({"source", DType::uint8, FieldKind::text, {}}, "ab\xff");
  EXPECT_THAT(said, testing::HasSubstr("sample 7"));
  EXPECT_THAT(said, testing::HasSubstr("not valid UTF-8 at byte 2"));
  EXPECT_THAT(refusal_of({"source", DType::int32, FieldKind::text, {}}, "1234"),
              testing::HasSubstr("text fields have single uint8 values"));
}

TEST(SampleChecks, reject_a_field_with_the_name_of_anothers_offsets) {
  const FieldSpec patches{"patches", DType::float32, FieldKind::rows, {}};
  EXPECT_EQ(refusal_of(patches, "1234", "offsets"), "taken");
  EXPECT_THAT(refusal_of(patches, "1234", "patches_offsets"),
              testing::HasSubstr("the name of the offsets that come with field 'patches'"));
}

TEST(SampleChecks, reject_a_loss_mask_of_counted_rows) {
  EXPECT_THAT(refusal_of({"loss_mask", DType::uint8, FieldKind::rows, {}}, "1"),
              testing::HasSubstr("one value per token or response token"));
}

/// Returns the error if fields are added to a sample of this shape that was supplied as id 7 of group 3, with
/// a prompt of 2 and a response of 4 tokens.
std::string refusal_to_add_to(const SampleShape& added) {
  const LengthTable table({{SampleShape{SampleId{7}, 3, 2, 4}, WorldRank{0}, 0}});
  RaggedBatch batch({added});
  batch.add_field({"rewards", DType::float32, FieldKind::sample, {}});
  try {
    require_addable(table, {}, WorldRank{0}, 1, batch);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

TEST(SampleChecks, reject_added_fields_of_other_samples) {
  EXPECT_EQ(refusal_to_add_to({SampleId{7}, 3, 2, 4}), "taken");
  EXPECT_THAT(refusal_to_add_to({SampleId{8}, 3, 2, 4}),
              testing::HasSubstr("added fields: have sample 8 where sample 7 was passed. Pass the same"));
  EXPECT_THAT(
      refusal_to_add_to({SampleId{7}, own_group(7), 2, 4}),
      testing::HasSubstr("do not name a group for sample 7, which was passed with one. Pass the groups"));
  EXPECT_THAT(refusal_to_add_to({SampleId{7}, 4, 2, 4}),
              testing::HasSubstr("name a different group for sample 7 than the one it was passed with"));
  EXPECT_THAT(refusal_to_add_to({SampleId{7}, 3, 3, 3}),
              testing::HasSubstr("have a prompt of 3 tokens and a response of 3 tokens for sample 7, "
                                 "which was passed with a prompt of 2 tokens and a response of 4 tokens"));
}

}  // namespace
}  // namespace evenkeel
