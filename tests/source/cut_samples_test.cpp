#include "source/cut_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "plan/units/segments.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;

const FieldSpec tokens_spec{"input_ids", DType::int64, FieldKind::token, {}};
const FieldSpec patches_spec{"patches", DType::int32, FieldKind::rows, {}};
const FieldSpec spans_spec{"spans", DType::int64, FieldKind::rows, {2}};

NamedFields cut_by_spans() {
  NamedFields told;
  told["patches"].cut_by = "spans";
  return told;
}

/// Returns one sample with a prompt of 3 and a response of 4 tokens, and with rows of these tokens, numbered
/// from 0.
RaggedBatch sample_with_rows(const std::vector<std::int64_t>& spans, std::int64_t patches) {
  RaggedBatch batch({{SampleId{5}, 1, 3, 4}});
  batch.add_field(tokens_spec);
  const auto add_rows = [&](const FieldSpec& spec, std::int64_t rows) -> Column& {
    return batch.add_field(Column(spec, SampleRows::from_counts(std::vector{rows})));
  };
  const auto numbers = add_rows(patches_spec, patches).values<std::int32_t>();
  std::iota(numbers.begin(), numbers.end(), 0);
  std::ranges::copy(spans, add_rows(spans_spec, std::ssize(spans) / 2).values<std::int64_t>().begin());
  return batch;
}

RaggedBatch cut(const RaggedBatch& batch, const std::vector<RowRange>& pieces) {
  std::vector<Cut> cuts;
  for (const RowRange& tokens : pieces) cuts.push_back({0, 0, tokens, SampleId{5}, 1});
  return cut_samples(std::span(&batch, 1), cuts, cut_by_spans());
}

TEST(CutSamples, give_each_piece_the_rows_of_its_tokens_with_relative_ranges) {
  // One row spans two pieces, two rows have the same tokens, and some tokens have no row.
  const RaggedBatch whole = sample_with_rows({0, 1, 1, 4, 1, 4, 6, 7}, 4);
  const RaggedBatch pieces = cut(whole, {{0, 3}, {3, 6}, {6, 7}});
  const Column& patches = pieces.at("patches");
  EXPECT_THAT(patches.samples().offsets(), ElementsAre(0, 3, 5, 6));
  EXPECT_THAT(patches.values<std::int32_t>(), ElementsAre(0, 1, 2, 1, 2, 3));
  EXPECT_THAT(pieces.at("spans").values<std::int64_t>(), ElementsAre(0, 1, 1, 3, 1, 3, 0, 1, 0, 1, 0, 1));
}

TEST(CutSamples, drop_rows_after_a_truncated_sample) {
  const RaggedBatch first = cut(sample_with_rows({2, 3, 5, 7}, 2), {{0, 3}});
  EXPECT_THAT(first.at("patches").values<std::int32_t>(), ElementsAre(0));
  EXPECT_THAT(first.at("spans").values<std::int64_t>(), ElementsAre(2, 3));
  EXPECT_EQ(cut(sample_with_rows({5, 7}, 1), {{0, 3}}).at("patches").rows(), 0);
}

TEST(CutSamples, do_not_change_rows_of_whole_samples) {
  const std::vector<std::int64_t> no_ranges{9, 2, -1, 4};
  const RaggedBatch whole = cut(sample_with_rows(no_ranges, 2), {{0, 7}});
  EXPECT_THAT(whole.at("patches").values<std::int32_t>(), ElementsAre(0, 1));
  EXPECT_THAT(whole.at("spans").values<std::int64_t>(), testing::ElementsAreArray(no_ranges));
}

TEST(CutSamples, reject_invalid_or_missing_token_ranges) {
  EXPECT_THAT(message_of([&] {
                (void)cut(sample_with_rows({0, 8}, 1), {{0, 3}});
              }),
              AllOf(HasSubstr("sample 5"), HasSubstr("row 0"), HasSubstr("[0, 8); the sample has 7 tokens")));
  EXPECT_THAT(message_of([&] {
                (void)cut(sample_with_rows({0, 2}, 3), {{0, 3}});
              }),
              AllOf(HasSubstr("'patches' of sample 5"), HasSubstr("has 3 rows")));
}

TEST(CutSamples, need_a_field_of_token_ranges_if_samples_are_cut) {
  const std::vector<SourceField> fields{{patches_spec}, {spans_spec}};
  const FilterCounts two_cut{.samples = 9, .taken = 9, .truncated = 2};
  const auto message = [&](std::span<const SourceField> brought, const NamedFields& told) {
    return message_of([&] { require_rows_can_be_cut(brought, told, "a source", two_cut); });
  };
  EXPECT_THAT(message(fields, {}), AllOf(HasSubstr("'patches' of kind rows"), HasSubstr("cuts 2 samples"),
                                         HasSubstr("fields.patches.cut_by")));
  EXPECT_THAT(message(std::span(fields).first(1), cut_by_spans()), HasSubstr("'spans'"));
  EXPECT_NO_THROW(require_rows_can_be_cut(fields, cut_by_spans(), "a source", two_cut));
  EXPECT_NO_THROW(require_rows_can_be_cut(fields, {}, "a source", {.samples = 9, .taken = 9}));
}

/// Returns keys of the last two tokens of a sample `prompt | 4 4 x x`, whose segments are `first first 5 5`.
std::vector<std::int64_t> keys_of_last_piece(FieldKind kind, std::int64_t prompt, std::int64_t first) {
  RaggedBatch whole({{SampleId{5}, 1, 1, 4}});
  std::ranges::copy(std::vector<std::int64_t>{prompt, 4, 4, 10 * first, 11 * first},
                    whole.add_field(tokens_spec).values<std::int64_t>().begin());
  std::vector<std::int64_t> segments{first, first, 5, 5};
  if (kind == FieldKind::token) segments.insert(segments.begin(), 0);
  std::ranges::copy(segments,
                    whole.add_field({"segment_ids", DType::int64, kind, {}}).values<std::int64_t>().begin());
  const std::vector<std::int64_t> keys = token_keys(cut(whole, {{0, 3}, {3, 5}}), 0);
  EXPECT_EQ(keys[1], -1 - first) << "a piece that begins its sample names segments as that does";
  return {keys.begin() + 3, keys.end()};
}

TEST(CutSamples, distinguish_pieces_with_one_segment_after_different_ones) {
  const std::vector<std::int64_t> one = keys_of_last_piece(FieldKind::response_token, 9, 1);
  EXPECT_EQ(one, keys_of_last_piece(FieldKind::response_token, 9, 1));
  EXPECT_EQ(one[0], one[1]) << "of one segment";
  EXPECT_NE(one, keys_of_last_piece(FieldKind::response_token, 9, 2));
  EXPECT_NE(one, keys_of_last_piece(FieldKind::response_token, 8, 1)) << "behind another prompt";
  EXPECT_NE(keys_of_last_piece(FieldKind::token, 9, 1), keys_of_last_piece(FieldKind::token, 9, 2));
}

}  // namespace
}  // namespace evenkeel
