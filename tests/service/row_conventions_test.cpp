#include "plan/schedule/row_conventions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "plan/schedule/sample_summary.hpp"
#include "service/step/sample_checks.hpp"
#include "support/error_message.hpp"

namespace evenkeel::row_conventions_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;

constexpr auto token = FieldKind::token;
constexpr auto response_token = FieldKind::response_token;

/// Returns a sample with prompt 1, 2 and response 10, 11, 12.
RaggedBatch one_sample() {
  RaggedBatch batch({{SampleId{7}, 0, 2, 3}});
  const std::vector<std::int64_t> tokens{1, 2, 10, 11, 12};
  std::ranges::copy(tokens,
                    batch.add_field({"input_ids", DType::int64, token, {}}).values<std::int64_t>().begin());
  return batch;
}

template <typename T>
void add(RaggedBatch& batch, const std::string& name, FieldKind kind, const std::vector<T>& values) {
  std::ranges::copy(values, batch.add_field({name, dtype_of<T>, kind, {}}).template values<T>().begin());
}

NamedFields at(const std::string& name, RowConvention convention) {
  NamedFields fields;
  fields[name].at = convention;
  return fields;
}

template <typename T>
std::vector<T> values_of(const RaggedBatch& batch, const char* name) {
  const std::span<const T> values = batch.at(name).values<T>();
  return {values.begin(), values.end()};
}

TEST(RowConventions, shift_values_at_tokens_to_the_predicting_rows) {
  RaggedBatch batch = one_sample();
  add<std::int64_t>(batch, "labels", token, {-100, -100, 10, 11, 12});
  add<float>(batch, "advantages", token, {0, 0, 0.5, 0.25, 0.125});
  NamedFields fields = at("labels", RowConvention::token);
  fields["advantages"].at = RowConvention::token;
  prepare_samples(batch, fields, false);
  EXPECT_THAT(values_of<std::int64_t>(batch, "labels"), ElementsAre(-100, 10, 11, 12, -100));
  EXPECT_THAT(values_of<float>(batch, "advantages"), ElementsAre(0, 0.5, 0.25, 0.125, 0));
  EXPECT_THAT(values_of<float>(batch, "loss_mask"), ElementsAre(0, 1, 1, 1, 0));
}

TEST(RowConventions, keep_values_at_predicting_rows) {
  RaggedBatch batch = one_sample();
  add<std::uint8_t>(batch, "loss_mask", token, {0, 1, 1, 0, 0});
  add<float>(batch, "advantages", token, {0, 0.5, 0.25, 0.125, 0});
  NamedFields fields = at("loss_mask", RowConvention::next);
  fields["advantages"].at = RowConvention::next;
  prepare_samples(batch, fields, false);
  EXPECT_THAT(values_of<std::uint8_t>(batch, "loss_mask"), ElementsAre(0, 1, 1, 0, 0));
  EXPECT_THAT(values_of<float>(batch, "advantages"), ElementsAre(0, 0.5, 0.25, 0.125, 0));
}

TEST(RowConventions, with_shared_prefixes_a_field_has_one_row_per_response_token) {
  for (const RowConvention convention : {RowConvention::token, RowConvention::next}) {
    RaggedBatch batch = one_sample();
    const bool is_moved = convention == RowConvention::token;
    add<float>(
        batch, "advantages", token,
        is_moved ? std::vector<float>{0, 0, 0.5, 0.25, 0.125} : std::vector<float>{0, 0.5, 0.25, 0.125, 0});
    prepare_samples(batch, at("advantages", convention), true);
    EXPECT_EQ(batch.at("advantages").spec().kind, response_token);
    EXPECT_THAT(values_of<float>(batch, "advantages"), ElementsAre(0.5, 0.25, 0.125));
  }
}

TEST(RowConventions, without_prompts_a_field_may_have_one_row_per_response_token) {
  RaggedBatch batch({{SampleId{0}, 0, 0, 2}});
  add<std::int64_t>(batch, "input_ids", token, {5, 6});
  add<std::uint8_t>(batch, "loss_mask", token, {1, 1});
  prepare_samples(batch, at("loss_mask", RowConvention::response), false);
  EXPECT_EQ(batch.at("loss_mask").spec().kind, response_token);
  EXPECT_EQ(summaries_of(batch).front().loss_tokens, 1);  // nothing predicts the first token
}

std::string refusal(const std::string& name, FieldKind kind, std::vector<std::uint8_t> mask,
                    const NamedFields& fields) {
  RaggedBatch batch = one_sample();
  if (name == "labels") {
    add<std::int64_t>(batch, name, kind, {mask.begin(), mask.end()});
  } else {
    add<std::uint8_t>(batch, name, kind, mask);
  }
  return message_of([&] { prepare_samples(batch, fields, false); });
}

TEST(RowConventions, are_required_for_labels_and_masks_of_all_tokens) {
  for (const char* name : {"labels", "loss_mask", "response_mask"}) {
    EXPECT_THAT(refusal(name, token, {0, 0, 1, 1, 1}, {}),
                AllOf(HasSubstr("field '" + std::string(name) + "'"), HasSubstr("one value per token"),
                      HasSubstr("fields." + std::string(name) + ".at: token")));
  }
}

TEST(RowConventions, reject_a_mask_that_is_set_at_the_last_row) {
  EXPECT_THAT(refusal("loss_mask", token, {0, 0, 1, 1, 1}, at("loss_mask", RowConvention::next)),
              AllOf(HasSubstr("sample 7"), HasSubstr("the last row, 4"), HasSubstr("at: token")));
}

TEST(RowConventions, reject_rows_of_another_kind) {
  EXPECT_THAT(refusal("loss_mask", response_token, {1, 1, 1}, at("loss_mask", RowConvention::token)),
              HasSubstr("is of kind response_token, but fields.loss_mask.at: token needs kind token"));
  EXPECT_THAT(refusal("loss_mask", token, {0, 0, 1, 1, 1}, at("loss_mask", RowConvention::response)),
              HasSubstr("at: response needs kind response_token"));
  EXPECT_THAT(refusal("flag", FieldKind::sample, {1}, at("flag", RowConvention::next)),
              HasSubstr("at: next needs kind token"));
}

TEST(ResponseMask, is_the_loss_mask) {
  RaggedBatch batch = one_sample();
  add<std::int64_t>(batch, "response_mask", response_token, {1, 0, 1});
  prepare_samples(batch, {}, false);
  EXPECT_EQ(batch.find("response_mask"), nullptr);
  EXPECT_THAT(values_of<std::int64_t>(batch, "loss_mask"), ElementsAre(1, 0, 1));
  EXPECT_EQ(summaries_of(batch).front().loss_tokens, 2);
}

TEST(ResponseMask, cannot_be_combined_with_a_loss_mask) {
  RaggedBatch batch = one_sample();
  add<std::int64_t>(batch, "response_mask", response_token, {1, 0, 1});
  add<std::int64_t>(batch, "loss_mask", response_token, {1, 0, 1});
  EXPECT_THAT(message_of([&] { prepare_samples(batch, {}, false); }),
              AllOf(HasSubstr("field 'response_mask'"), HasSubstr("cannot be combined with 'loss_mask'")));
}

TEST(IgnoredLabels, carry_no_loss) {
  RaggedBatch batch({{SampleId{0}, 0, 2, 4}, {SampleId{1}, 1, 1, 2}});
  add<std::int64_t>(batch, "input_ids", token, {1, 2, 10, 11, 12, 13, 1, 20, 21});
  add<std::int64_t>(batch, "labels", response_token, {10, -100, -100, 13, 20, 21});
  prepare_samples(batch, {}, false);
  EXPECT_THAT(values_of<float>(batch, "loss_mask"), ElementsAre(1, 0, 0, 1, 1, 1));
  const std::vector<SampleSummary> summaries = summaries_of(batch);
  EXPECT_EQ(summaries[0].loss_tokens + summaries[1].loss_tokens, 4);
}

TEST(IgnoredLabels, clear_a_supplied_mask_of_any_kind) {
  for (const FieldKind of_labels : {token, response_token}) {
    for (const FieldKind of_mask : {token, response_token}) {
      RaggedBatch batch = one_sample();
      const auto is_of_tokens = [](FieldKind kind) { return kind == token; };
      add<std::int64_t>(batch, "labels", of_labels,
                        is_of_tokens(of_labels) ? std::vector<std::int64_t>{-100, 10, -100, 12, -100}
                                                : std::vector<std::int64_t>{10, -100, 12});
      add<std::uint8_t>(batch, "loss_mask", of_mask,
                        is_of_tokens(of_mask) ? std::vector<std::uint8_t>{0, 0, 1, 1, 0}
                                              : std::vector<std::uint8_t>{0, 1, 1});
      NamedFields fields;
      if (is_of_tokens(of_labels)) fields["labels"].at = RowConvention::next;
      if (is_of_tokens(of_mask)) fields["loss_mask"].at = RowConvention::next;
      prepare_samples(batch, fields, false);
      const std::vector<std::uint8_t> mask = values_of<std::uint8_t>(batch, "loss_mask");
      if (is_of_tokens(of_mask)) {
        EXPECT_THAT(mask, ElementsAre(0, 0, 0, 1, 0));
      } else {
        EXPECT_THAT(mask, ElementsAre(0, 0, 1));
      }
    }
  }
}

TEST(DumpedRows, have_the_rows_of_steps) {
  RaggedBatch batch = one_sample();
  add<std::int64_t>(batch, "labels", token, {-100, 10, 11, 12, -100});
  add<std::uint8_t>(batch, "loss_mask", response_token, {1, 1, 1});
  add<float>(batch, "advantages", token, {0, 0.5, 0.25, 0.125, 0});
  Config config;
  for (const char* name : {"advantages", "labels", "loss_mask"})
    config.fields[name].at = RowConvention::token;
  EXPECT_EQ(fields_as_read(config, batch), config.fields);
  config.source.kind = SourceKind::dump;
  const NamedFields fields = fields_as_read(config, batch);
  EXPECT_EQ(fields.at("advantages").at, RowConvention::next);
  EXPECT_EQ(fields.at("labels").at, RowConvention::next);
  EXPECT_EQ(fields.at("loss_mask").at, std::nullopt);
}

}  // namespace
}  // namespace evenkeel::row_conventions_test
