#include "evenkeel/pack/padded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Bytes = std::vector<std::byte>;
using Entries = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

PaddedMask shaped(std::int64_t batch, std::int64_t seq, const Entries& entries) {
  return {batch, seq, entries};
}

Floats without_padding(const PaddedMask& mask, const Floats& padded, std::size_t tokens) {
  Floats ragged(tokens);
  remove_padding(mask, sizeof(float), std::as_bytes(std::span(padded)),
                 std::as_writable_bytes(std::span(ragged)));
  return ragged;
}

Floats right_padded(const Lengths& lengths, const std::vector<RowRange>& kept, std::int64_t seq,
                    const Floats& ragged, float pad = 0) {
  Floats padded(lengths.size() * static_cast<std::size_t>(seq), -1);
  pad_right(lengths, kept, seq, sizeof(float), std::as_bytes(std::span(ragged)),
            std::as_bytes(std::span(&pad, 1)), std::as_writable_bytes(std::span(padded)));
  return padded;
}

/// Arbitrary 0/1 entries, or mostly one of them.
Entries arbitrary_mask(std::int64_t batch, std::int64_t seq) {
  return *rc::gen::container<Entries>(
      static_cast<std::size_t>(batch * seq),
      *rc::gen::element(rc::gen::element<std::uint8_t>(0, 1), rc::gen::element<std::uint8_t>(0, 0, 0, 0, 1),
                        rc::gen::element<std::uint8_t>(0, 1, 1, 1, 1), rc::gen::just<std::uint8_t>(1)));
}

TEST(LengthsOf, count_the_ones_of_every_row) {
  const Entries entries{1, 1, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_THAT(lengths_of(shaped(3, 3, entries)), ElementsAre(2, 0, 2));
  EXPECT_THAT(lengths_of(shaped(2, 0, {})), ElementsAre(0, 0));
  EXPECT_THAT(lengths_of(shaped(0, 5, {})), IsEmpty());
}

TEST(LengthsOf, reject_a_mask_of_another_size) {
  const Entries entries(6, 1);
  EXPECT_THROW((void)lengths_of(shaped(3, 3, entries)), InputError);
  EXPECT_THROW((void)lengths_of(shaped(2, 0, entries)), InputError);
  EXPECT_THROW((void)lengths_of(shaped(-2, -3, entries)), InputError);
}

TEST(LengthsOf, reject_an_entry_that_is_neither_zero_nor_one) {
  try {
    (void)lengths_of(shaped(1, 3, {1, 1, 2}));
    FAIL() << "2 is no mask entry";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("entry 2 (counted over all rows) is neither 0 nor 1"));
  }
}

// References take the first sum(mask) columns and thus read padding if it is on the left.
TEST(RemovePadding, keeps_masked_rows_on_either_side) {
  const Floats ids{0, 7, 21, 22, 31, 0};
  EXPECT_THAT(without_padding(shaped(1, 2, {0, 1}), {0, 7}, 1), ElementsAre(7));
  EXPECT_THAT(without_padding(shaped(3, 2, {0, 1, 1, 1, 1, 0}), ids, 4), ElementsAre(7, 21, 22, 31));
}

TEST(RemovePadding, keeps_tokens_between_holes) {
  EXPECT_THAT(without_padding(shaped(1, 5, {1, 0, 1, 0, 1}), {1, 2, 3, 4, 5}, 3), ElementsAre(1, 3, 5));
}

TEST(RemovePadding, of_tensors_of_another_shape_than_the_mask_is_an_error) {
  const Entries entries{1, 1};
  EXPECT_THROW((void)without_padding(shaped(1, 2, entries), {1, 2, 3}, 2), InputError);
  EXPECT_THROW((void)without_padding(shaped(1, 2, entries), {1, 2}, 1), InputError);
}

TEST(RestorePadding, fills_all_other_rows_with_the_pad_row) {
  const Entries entries{0, 1, 1, 1, 0, 0};
  const Floats ragged{1, 2, 3};
  const float pad = 9;
  Floats padded(6);
  restore_padding(shaped(2, 3, entries), sizeof(float), std::as_bytes(std::span(ragged)),
                  std::as_bytes(std::span(&pad, 1)), std::as_writable_bytes(std::span(padded)));
  EXPECT_THAT(padded, ElementsAre(9, 1, 2, 3, 9, 9));
}

TEST(RestorePadding, refuses_buffers_of_the_wrong_size) {
  const Entries entries{0, 1};
  Bytes padded(8);
  EXPECT_NO_THROW(restore_padding(shaped(1, 2, entries), 4, Bytes(4), {}, padded));
  EXPECT_THROW(restore_padding(shaped(1, 2, entries), 4, Bytes(8), {}, padded), InputError);
  EXPECT_THROW(restore_padding(shaped(1, 2, entries), 4, Bytes(4), Bytes(3), padded), InputError);
  EXPECT_THROW(restore_padding(shaped(1, 2, entries), 2, Bytes(2), {}, padded), InputError);
}

RC_GTEST_PROP(RestorePadding, and_remove_padding_are_inverse_for_every_mask, ()) {
  const auto batch = *rc::gen::inRange<std::int64_t>(0, 8);
  const auto seq = *rc::gen::inRange<std::int64_t>(0, 20);
  const auto row_bytes = *rc::gen::element<std::size_t>(0, 1, 2, 3, 8, 24);
  const Entries entries = arbitrary_mask(batch, seq);
  const PaddedMask mask = shaped(batch, seq, entries);
  const Lengths lengths = lengths_of(mask);
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const Bytes ragged = arbitrary_bytes(tokens, row_bytes);
  const Bytes pad_row = arbitrary_bytes(1, row_bytes);

  Bytes padded(entries.size() * row_bytes);
  restore_padding(mask, row_bytes, ragged, pad_row, padded);
  for (std::size_t place = 0; place < entries.size(); ++place) {
    if (entries[place] != 0) continue;
    RC_ASSERT(std::equal(pad_row.begin(), pad_row.end(),
                         padded.begin() + static_cast<std::ptrdiff_t>(place * row_bytes)));
  }
  Bytes removed(ragged.size());
  remove_padding(mask, row_bytes, padded, removed);
  RC_ASSERT(removed == ragged);
}

TEST(PadRight, puts_every_sequence_at_the_left_of_its_row) {
  EXPECT_THAT(right_padded({2, 0, 1}, {}, 3, {1, 2, 3}, 9), ElementsAre(1, 2, 9, 9, 9, 9, 3, 9, 9));
}

TEST(PadRight, keeps_the_given_rows) {
  EXPECT_THAT(right_padded({3, 2}, {{1, 3}, {0, 1}}, 2, {1, 2, 3, 4, 5}), ElementsAre(2, 3, 4, 0));
}

TEST(PadRight, fills_the_row_before_the_first) {
  EXPECT_THAT(right_padded({2}, {{-1, 1}}, 3, {5, 6}, 9), ElementsAre(9, 5, 9));
  EXPECT_THAT(right_padded({2}, {{-1, 0}}, 2, {5, 6}, 9), ElementsAre(9, 9));
}

TEST(PadRight, refuses_rows_out_of_range_or_too_long) {
  EXPECT_THROW((void)right_padded({3}, {}, 2, {1, 2, 3}), InputError);
  EXPECT_THROW((void)right_padded({3}, {{0, 4}}, 4, {1, 2, 3}), InputError);
  EXPECT_THROW((void)right_padded({3}, {{-2, 1}}, 4, {1, 2, 3}), InputError);
  EXPECT_THROW((void)right_padded({3}, {{2, 1}}, 4, {1, 2, 3}), InputError);
  EXPECT_THROW((void)right_padded({3}, {{0, 1}, {0, 1}}, 4, {1, 2, 3}), InputError);
  EXPECT_THROW((void)right_padded({-1}, {{-1, -1}}, 4, {}), InputError);
  EXPECT_THROW((void)right_padded({3}, {}, 4, {1, 2}), InputError);
}

RC_GTEST_PROP(PadRight, is_undone_by_a_mask_of_the_lengths, ()) {
  const Lengths lengths = arbitrary_lengths();
  const auto row_bytes = *rc::gen::element<std::size_t>(0, 1, 3, 8);
  const std::int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  const std::int64_t seq = longest + *rc::gen::inRange<std::int64_t>(0, 4);
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const Bytes ragged = arbitrary_bytes(tokens, row_bytes);
  Entries entries;
  for (const std::int64_t length : lengths) {
    for (std::int64_t column = 0; column < seq; ++column) entries.push_back(column < length ? 1 : 0);
  }
  Bytes padded(entries.size() * row_bytes);
  pad_right(lengths, {}, seq, row_bytes, ragged, {}, padded);
  Bytes restored(ragged.size());
  remove_padding(shaped(static_cast<std::int64_t>(lengths.size()), seq, entries), row_bytes, padded,
                 restored);
  RC_ASSERT(restored == ragged);
}

// Column j of the result belongs to response token j, whose log-prob is one row before it.
constexpr std::int64_t quarter = std::int64_t{1} << 61;

TEST(PadRight, refuses_lengths_and_sizes_past_64_bits) {
  using Lengths = std::vector<std::int64_t>;
  using Kept = std::vector<RowRange>;
  std::vector<std::byte> one(8);
  // The number of bytes in the rows, modulo 2^64, equals that of the empty buffers.
  EXPECT_THROW(pad_right(Lengths{quarter}, Kept{{0, 1}}, 1, 8, {}, {}, one), InputError);
  EXPECT_THROW(pad_right(Lengths{0}, {}, quarter, 8, {}, {}, {}), InputError);
  EXPECT_THROW(pad_right(Lengths{0, 0, 0, 0}, {}, quarter, 2, {}, {}, {}), InputError);
  EXPECT_THROW(pad_right(Lengths{1}, {}, -1, 8, one, {}, {}), InputError);
  const Lengths many(8, quarter);
  EXPECT_THROW(pad_right(many, Kept(8), 0, 8, {}, {}, {}), InputError);
  const std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(pad_right(Lengths{longest}, Kept{{-1, longest}}, longest, 8, {}, {}, {}), InputError);
}

TEST(RemovePadding, refuses_rows_whose_bytes_do_not_fit_into_64_bits) {
  const std::vector<std::uint8_t> entries{1, 1};
  const std::size_t half_of_all = std::size_t{1} << 63;
  EXPECT_THROW(remove_padding({1, 2, entries}, half_of_all, {}, {}), InputError);
  EXPECT_THROW(restore_padding({1, 2, entries}, half_of_all, {}, {}, {}), InputError);
}

TEST(ResponsePredictionRows, start_one_row_before_the_response) {
  EXPECT_THAT(response_prediction_rows(Lengths{10, 10}, Lengths{7, 10}),
              ElementsAre(RowRange{6, 9}, RowRange{9, 9}));
}

TEST(ResponsePredictionRows, without_a_prompt_have_no_prediction_for_the_first_token) {
  const auto rows = response_prediction_rows(Lengths{2, 3, 0}, Lengths{1, 0, 0});
  EXPECT_THAT(rows, ElementsAre(RowRange{0, 1}, RowRange{-1, 2}, RowRange{-1, -1}));
  EXPECT_THAT(right_padded({2, 3, 0}, rows, 3, {1, 2, 3, 4, 5}), ElementsAre(1, 0, 0, 0, 3, 4, 0, 0, 0));
}

TEST(ResponsePredictionRows, of_a_prompt_longer_than_its_sequence_are_an_error) {
  EXPECT_THROW((void)response_prediction_rows(Lengths{2, 2}, Lengths{2, 3}), InputError);
  EXPECT_THROW((void)response_prediction_rows(Lengths{2}, Lengths{-1}), InputError);
  EXPECT_THROW((void)response_prediction_rows(Lengths{2}, Lengths{}), InputError);
}

RC_GTEST_PROP(ResponsePredictionRows, are_the_rows_before_each_response_token, ()) {
  Lengths prompts;
  Lengths lengths = arbitrary_lengths();
  for (const std::int64_t length : lengths) {
    prompts.push_back(*rc::gen::inRange<std::int64_t>(0, length + 1));
  }
  Floats ragged;  // row t of every sequence contains t + 1: the position of the token that it predicts
  for (const std::int64_t length : lengths) {
    for (std::int64_t t = 0; t < length; ++t) ragged.push_back(static_cast<float>(t + 1));
  }
  const std::int64_t seq = 80;
  const Floats padded = right_padded(lengths, response_prediction_rows(lengths, prompts), seq, ragged, 0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t j = 0; j < seq; ++j) {
      const std::int64_t token = prompts[i] + j;
      const float actual = padded[i * static_cast<std::size_t>(seq) + static_cast<std::size_t>(j)];
      RC_ASSERT(actual == (token < lengths[i] ? static_cast<float>(token) : 0.0F));
    }
  }
}

}  // namespace
}  // namespace evenkeel
