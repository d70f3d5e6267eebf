#include "plan/schedule/sample_summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evenkeel {
namespace {

/// Returns the loss tokens of a sample with `prompt` and `response` tokens whose mask is set everywhere.
std::int64_t counted(std::int64_t prompt, std::int64_t response, FieldKind kind, bool shared) {
  RaggedBatch batch({{SampleId{0}, 0, 2, 3}, {SampleId{1}, 0, prompt, response}});
  batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  std::ranges::fill(batch.add_field({"loss_mask", DType::uint8, kind, {}}).bytes(), std::byte{1});
  return (shared ? summaries_for_sharing(batch) : summaries_of(batch))[1].loss_tokens;
}

TEST(LengthsOf, count_loss_tokens_in_masks_with_one_value_per_token_or_response_token) {
  EXPECT_EQ(counted(4, 3, FieldKind::token, false), 7);
  EXPECT_EQ(counted(4, 3, FieldKind::response_token, false), 3);
  EXPECT_EQ(counted(4, 0, FieldKind::response_token, false), 0);
  EXPECT_EQ(counted(0, 0, FieldKind::token, false), 0);
}

TEST(LengthsOf, do_not_count_a_response_token_that_starts_its_sample) {
  EXPECT_EQ(counted(0, 3, FieldKind::response_token, false), 2);
  EXPECT_EQ(counted(0, 0, FieldKind::response_token, false), 0);
  EXPECT_EQ(counted(0, 3, FieldKind::response_token, true), 2);
}

TEST(LengthsForSharing, count_the_rows_that_predict_response_tokens) {
  EXPECT_EQ(counted(4, 3, FieldKind::token, true), 3);
  EXPECT_EQ(counted(4, 3, FieldKind::response_token, true), 3);
  EXPECT_EQ(counted(4, 0, FieldKind::token, true), 0);
  EXPECT_EQ(counted(0, 3, FieldKind::token, true), 2);
  EXPECT_EQ(counted(1, 0, FieldKind::token, true), 0);
  EXPECT_EQ(counted(0, 0, FieldKind::token, true), 0);
}

}  // namespace
}  // namespace evenkeel
