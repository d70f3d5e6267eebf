#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel {
namespace {

/// What is said of a sample whose labels are a field of this form.
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

TEST(SampleChecks, say_what_a_field_is_with_the_article_of_its_dtype) {
  const std::string must = "; it must have one int64 a token, or one a response token";
  EXPECT_EQ(refusal_of_labels(DType::int64, {}), "taken");
  EXPECT_EQ(refusal_of_labels(DType::int64, {2}), "is an int64 token field of rows of 2" + must);
  EXPECT_EQ(refusal_of_labels(DType::int32, {}), "is an int32 token field" + must);
  EXPECT_EQ(refusal_of_labels(DType::uint8, {}), "is a uint8 token field" + must);
  EXPECT_EQ(refusal_of_labels(DType::float32, {}), "is a float32 token field" + must);
  EXPECT_EQ(refusal_of_labels(DType::boolean, {}), "is a bool token field" + must);
}

}  // namespace
}  // namespace evenkeel
