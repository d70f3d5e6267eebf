#include "evenkeel/pack/prefix/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "pack/arbitrary.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/tensor_bytes.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using Bytes = std::vector<std::byte>;
using Entries = std::vector<std::uint8_t>;
using Ranges = std::vector<RowRange>;
using Runs = std::vector<TokenRun>;
using test::tensor_bytes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::message_of;

Lengths arbitrary_row_lengths() {
  return *rc::gen::container<Lengths>(*rc::gen::inRange<std::size_t>(0, 6),
                                      rc::gen::inRange<std::int64_t>(0, 6));
}

TEST(TokenPlaces, of_a_mask_are_its_runs_of_set_entries) {
  const TokenPlaces places(PaddedMask{2, 3, Entries{0, 1, 1, 1, 0, 1}});
  EXPECT_THAT(places.runs(), ElementsAre(TokenRun{0, 1, 2}, TokenRun{1, 0, 1}, TokenRun{1, 2, 1}));
  EXPECT_EQ(places.size(), 4);
}

TEST(TokenPlaces, of_lengths_are_on_the_side_without_padding) {
  EXPECT_THAT(TokenPlaces(Lengths{2, 0, 3}, 3, PaddingSide::right).mask(),
              ElementsAre(1, 1, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(TokenPlaces(Lengths{2, 0, 3}, 3, PaddingSide::left).mask(),
              ElementsAre(0, 1, 1, 0, 0, 0, 1, 1, 1));
}

TEST(TokenPlaces, padded_to_the_longest_row_have_no_empty_column) {
  EXPECT_EQ(padded_to_longest(Lengths{2, 0, 3}, PaddingSide::left).shape(), (PaddedShape{3, 3}));
  EXPECT_EQ(padded_to_longest(Lengths{}, PaddingSide::left).shape(), (PaddedShape{0, 0}));
}

TEST(TokenPlaces, merge_neighbors_and_leave_out_the_empty) {
  const TokenPlaces places({1, 9}, Runs{{0, 1, 2}, {0, 3, 0}, {0, 3, 1}, {0, 5, 1}});
  EXPECT_THAT(places.runs(), ElementsAre(TokenRun{0, 1, 3}, TokenRun{0, 5, 1}));
}

TEST(TokenPlaces, reject_tokens_that_do_not_fit) {
  EXPECT_THROW(TokenPlaces({1, 3}, Runs{{0, 2, 2}}), InputError);
  EXPECT_THROW(TokenPlaces({1, 3}, Runs{{1, 0, 1}}), InputError);
  EXPECT_THROW(TokenPlaces({1, 3}, Runs{{0, -1, 1}}), InputError);
  EXPECT_THROW(TokenPlaces({-1, 3}, Runs{}), InputError);
  EXPECT_THROW(TokenPlaces(Lengths{4}, 3, PaddingSide::right), InputError);
  EXPECT_THROW(TokenPlaces(Lengths{-1}, 3, PaddingSide::left), InputError);
  EXPECT_THROW(TokenPlaces(PaddedMask{1, 3, Entries{0, 1, 2}}), InputError);
}

TEST(TokenPlaces, reject_shapes_and_sizes_past_64_bits) {
  constexpr std::int64_t half = std::int64_t{1} << 62;
  EXPECT_THROW(TokenPlaces({2, half}, Runs{}), InputError);
  EXPECT_THROW(TokenPlaces(Lengths{half, half}, half, PaddingSide::right), InputError);
  EXPECT_THROW(TokenPlaces({1, half}, Runs{{0, 0, half}, {0, 0, half}}), InputError);
  const TokenPlaces places({1, half}, Runs{{0, 0, half}});
  EXPECT_THROW((void)places.select(Ranges{{0, half}, {0, half}}), InputError);
  EXPECT_THROW(move_tokens(places, places, {4}, {}, {}), InputError);
  EXPECT_THROW(fill_padding(places, {2, 2}, {}, {}), InputError);
}

TEST(TokenPlaces, select_names_tokens_in_any_order_and_any_number_of_times) {
  const TokenPlaces places(PaddedMask{2, 3, Entries{0, 1, 1, 1, 0, 1}});
  const TokenPlaces selected = places.select(Ranges{{3, 4}, {1, 3}, {1, 2}, {2, 2}});
  EXPECT_THAT(selected.positions(), ElementsAre(TokenPosition{1, 2}, TokenPosition{0, 2}, TokenPosition{1, 0},
                                                TokenPosition{0, 2}));
  EXPECT_EQ(selected.shape(), places.shape());
  EXPECT_THAT(places.select(Ranges{}).runs(), IsEmpty());
}

TEST(TokenPlaces, select_refuses_tokens_out_of_range) {
  const TokenPlaces places(Lengths{2}, 2, PaddingSide::right);
  EXPECT_THROW((void)places.select(Ranges{{1, 3}}), InputError);
  EXPECT_THROW((void)places.select(Ranges{{-1, 1}}), InputError);
  EXPECT_THROW((void)places.select(Ranges{{2, 1}}), InputError);
}

RC_GTEST_PROP(TokenPlaces, give_their_mask_back, ()) {
  const OwnedMask mask = arbitrary_mask_of(arbitrary_row_lengths());
  const TokenPlaces places(mask.view());
  RC_ASSERT(places.mask() == mask.entries);
  RC_ASSERT(static_cast<std::int64_t>(places.positions().size()) == places.size());
}

RC_GTEST_PROP(TokenPlaces, select_gives_the_positions_of_the_named_tokens, ()) {
  const TokenPlaces places(arbitrary_mask_of(arbitrary_row_lengths()).view());
  const auto begin = *rc::gen::inRange<std::int64_t>(0, places.size() + 1);
  const auto end = *rc::gen::inRange<std::int64_t>(begin, places.size() + 1);
  const auto all = places.positions();
  RC_ASSERT(places.select(Ranges{{begin, end}}).positions() ==
            std::vector<TokenPosition>(all.begin() + begin, all.begin() + end));
}

RC_GTEST_PROP(MoveTokens, go_to_their_places_and_leave_the_rest, ()) {
  const Lengths lengths = arbitrary_row_lengths();
  const TokenPlaces from(arbitrary_mask_of(lengths).view());
  const TokenPlaces to(arbitrary_mask_of(lengths).view());
  const RowFormat format{*rc::gen::element<std::size_t>(0, 1, 2, 4, 8, 24), *rc::gen::inRange(1, 4)};
  const Bytes source = arbitrary_bytes(1, tensor_bytes(from, format));
  const Bytes before = arbitrary_bytes(1, tensor_bytes(to, format));
  Bytes target = before;
  move_tokens(from, to, format, source, target);

  Bytes expected = before;
  const auto out_of = from.positions();
  const auto into = to.positions();
  const auto offset = [&](const TokenPlaces& places, TokenPosition at, std::int64_t head) {
    return static_cast<std::ptrdiff_t>(((at.row * format.heads + head) * places.shape().width + at.column)) *
           static_cast<std::ptrdiff_t>(format.row_bytes);
  };
  for (std::size_t t = 0; t < out_of.size(); ++t) {
    for (std::int64_t head = 0; head < format.heads; ++head) {
      std::copy_n(source.begin() + offset(from, out_of[t], head), format.row_bytes,
                  expected.begin() + offset(to, into[t], head));
    }
  }
  RC_ASSERT(target == expected);
}

RC_GTEST_PROP(FillPadding, fills_exactly_the_places_without_tokens, ()) {
  const OwnedMask mask = arbitrary_mask_of(arbitrary_row_lengths());
  const TokenPlaces places(mask.view());
  const std::uint16_t pad = 0xabcd;
  std::vector<std::uint16_t> target(mask.entries.size(), 7);
  fill_padding(places, {sizeof(pad)}, std::as_bytes(std::span(&pad, 1)),
               std::as_writable_bytes(std::span(target)));
  for (std::size_t i = 0; i < target.size(); ++i) RC_ASSERT(target[i] == (mask.entries[i] == 1 ? 7 : pad));
}

TEST(TokenPlaces, reject_a_conversion_to_rows_with_other_numbers_of_tokens) {
  const TokenPlaces from(Lengths{1, 2}, 2, PaddingSide::right);
  const auto converted_to = [&](const Lengths& to) {
    return [&from, to] { require_same_rows(from, TokenPlaces(to, 2, PaddingSide::left)); };
  };
  EXPECT_NO_THROW(converted_to({1, 2})());
  EXPECT_THAT(message_of(converted_to({2, 1})),
              HasSubstr("row 0 has 1 token in the source, but 2 places in the target"));
  EXPECT_THAT(message_of(converted_to({1, 1, 1})),
              HasSubstr("there are 2 source rows and 3 target rows; the two numbers must be equal"));
}

TEST(FillPadding, reaches_every_head) {
  std::vector<std::uint8_t> target(2 * 3, 9);
  fill_padding(TokenPlaces(Lengths{2}, 3, PaddingSide::left), {1, 2}, {},
               std::as_writable_bytes(std::span(target)));
  EXPECT_THAT(target, ElementsAre(0, 9, 9, 0, 9, 9));
}

TEST(FillPadding, refuses_places_out_of_order) {
  Bytes target(4);
  EXPECT_THROW(fill_padding(TokenPlaces({1, 4}, Runs{{0, 2, 1}, {0, 0, 1}}), {1}, {}, target), InputError);
  EXPECT_THROW(fill_padding(TokenPlaces({2, 2}, Runs{{1, 0, 1}, {0, 0, 1}}), {1}, {}, target), InputError);
}

TEST(MoveTokens, reject_inconsistent_sizes) {
  const TokenPlaces two(Lengths{2}, 2, PaddingSide::right);
  const TokenPlaces one(Lengths{1}, 2, PaddingSide::right);
  Bytes right(2);
  Bytes wrong(3);
  EXPECT_THROW(move_tokens(two, one, {1}, right, right), InputError);
  EXPECT_THROW(move_tokens(two, two, {1}, wrong, right), InputError);
  EXPECT_THROW(move_tokens(two, two, {1}, right, wrong), InputError);
  EXPECT_THROW(move_tokens(two, two, {1, 0}, right, right), InputError);
  EXPECT_THROW(fill_padding(two, {1}, Bytes(2), right), InputError);
}

}  // namespace
}  // namespace evenkeel
