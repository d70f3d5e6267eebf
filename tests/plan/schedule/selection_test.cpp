#include "plan/schedule/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <tuple>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Lengths = std::vector<std::int64_t>;
using Taken = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // position, begin, end

Selection select(const Lengths& lengths, const FilterSettings& settings, std::int64_t max_length = 4) {
  return Selection(
      std::ssize(lengths), [&](std::int64_t p) { return lengths[static_cast<std::size_t>(p)]; }, settings,
      max_length, "rollouts.jsonl");
}

std::vector<Taken> pieces_of(const Selection& selection, const Lengths& lengths) {
  std::vector<Taken> taken;
  for (std::int64_t entry = 0; entry < selection.size(); ++entry) {
    const auto position = static_cast<std::size_t>(selection.position_of(entry));
    const Piece piece = selection.piece(entry, lengths[position]);
    EXPECT_EQ(piece.position, selection.position_of(entry));
    taken.emplace_back(piece.position, piece.tokens.begin, piece.tokens.end);
  }
  return taken;
}

const Lengths example{3, 9, 0, 4, 5};

TEST(Selection, takes_all_samples_whole_by_default) {
  const Selection selection = select(example, {});
  EXPECT_THAT(pieces_of(selection, example),
              ElementsAre(Taken{0, 0, 3}, Taken{1, 0, 9}, Taken{2, 0, 0}, Taken{3, 0, 4}, Taken{4, 0, 5}));
  EXPECT_EQ(selection.counts(), (FilterCounts{.samples = 5, .taken = 5}));
  EXPECT_EQ(selection.digest(), Selection(5).digest());
}

TEST(Selection, refuses_samples_longer_than_the_limit) {
  const auto refusing = [](std::int64_t limit) {
    return select(example, {.too_long = TooLong::error, .max_length = limit});
  };
  EXPECT_EQ(refusing(9).size(), 5);
  try {
    static_cast<void>(refusing(8));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "rollouts.jsonl: sample 1 has 9 tokens; batch.max_length is 8. Raise it, or set batch.too_long "
        "to drop, truncate or split");
  }
}

TEST(Selection, drops_and_counts_samples_longer_than_the_limit) {
  const Selection selection = select(example, {.too_long = TooLong::drop});
  EXPECT_THAT(pieces_of(selection, example), ElementsAre(Taken{0, 0, 3}, Taken{2, 0, 0}, Taken{3, 0, 4}));
  EXPECT_EQ(selection.counts(),
            (FilterCounts{.samples = 5, .taken = 3, .dropped_too_long = 2, .tokens_left_out = 14}));
  EXPECT_TRUE(selection.takes_whole_samples());
}

TEST(Selection, truncates_to_the_limit_and_counts_dropped_tokens) {
  const Selection selection = select(example, {.too_long = TooLong::truncate});
  EXPECT_THAT(pieces_of(selection, example),
              ElementsAre(Taken{0, 0, 3}, Taken{1, 0, 4}, Taken{2, 0, 0}, Taken{3, 0, 4}, Taken{4, 0, 4}));
  EXPECT_EQ(selection.counts(),
            (FilterCounts{.samples = 5, .taken = 5, .truncated = 2, .tokens_left_out = 6}));
}

TEST(Selection, splits_into_pieces_without_losing_tokens) {
  const Selection selection = select(example, {.too_long = TooLong::split});
  EXPECT_THAT(pieces_of(selection, example),
              ElementsAre(Taken{0, 0, 3}, Taken{1, 0, 4}, Taken{1, 4, 8}, Taken{1, 8, 9}, Taken{2, 0, 0},
                          Taken{3, 0, 4}, Taken{4, 0, 4}, Taken{4, 4, 5}));
  EXPECT_EQ(selection.counts(), (FilterCounts{.samples = 5, .taken = 8, .split = 2, .pieces = 5}));
}

TEST(Selection, drops_empty_samples_or_refuses_the_first_by_its_number) {
  const Selection selection = select(example, {.empty = EmptySample::drop});
  EXPECT_EQ(selection.counts(), (FilterCounts{.samples = 5, .taken = 4, .dropped_empty = 1}));
  try {
    (void)select(example, {.empty = EmptySample::error});
    FAIL() << "it was taken";
  } catch (const InputError& error) {
    EXPECT_EQ(error.report().where, "rollouts.jsonl");
    EXPECT_THAT(error.report().message, HasSubstr("sample 2 has no tokens"));
  }
}

TEST(Selection, may_select_no_samples) {
  EXPECT_EQ(select({9, 9}, {.too_long = TooLong::drop}).size(), 0);
}

RC_GTEST_PROP(Selection, keeps_or_counts_every_token, ()) {
  const auto lengths = *rc::gen::container<Lengths>(rc::gen::inRange<std::int64_t>(0, 20));
  FilterSettings settings;
  settings.too_long = *rc::gen::element(TooLong::error, TooLong::drop, TooLong::truncate, TooLong::split);
  settings.empty = *rc::gen::element(EmptySample::keep, EmptySample::drop);
  const auto limit = *rc::gen::inRange<std::int64_t>(1, 12);
  const Selection selection = select(lengths, settings, limit);
  std::int64_t tokens = selection.counts().tokens_left_out;
  std::int64_t empty = selection.counts().dropped_empty;
  Taken before{-1, 0, 0};
  for (const Taken& taken : pieces_of(selection, lengths)) {
    const auto& [position, begin, end] = taken;
    RC_ASSERT(settings.too_long == TooLong::error || end - begin <= limit);
    RC_ASSERT(begin == (position == std::get<0>(before) ? std::get<2>(before) : 0));
    RC_ASSERT(position >= std::get<0>(before));
    tokens += end - begin;
    empty += end == begin ? 1 : 0;
    before = taken;
  }
  std::int64_t all = 0;
  for (const std::int64_t length : lengths) all += length;
  RC_ASSERT(tokens == all);
  RC_ASSERT(empty == std::ranges::count(lengths, 0));
}

RC_GTEST_PROP(Selection, has_a_digest_of_its_samples, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(1, 12);
  const auto length = rc::gen::inRange<std::int64_t>(0, 12);
  const auto lengths = *rc::gen::container<Lengths>(size, length);
  const auto other = *rc::gen::container<Lengths>(size, length);
  const FilterSettings settings{.too_long = *rc::gen::element(TooLong::drop, TooLong::split),
                                .empty = EmptySample::drop};
  const auto taken_by = [](const Selection& selection) {
    Lengths positions;
    for (std::int64_t e = 0; e < selection.size(); ++e) positions.push_back(selection.position_of(e));
    return positions;
  };
  const Selection one = select(lengths, settings);
  const Selection two = select(other, settings);
  if (taken_by(one) != taken_by(two)) RC_ASSERT(one.digest() != two.digest());
}

}  // namespace
}  // namespace evenkeel
