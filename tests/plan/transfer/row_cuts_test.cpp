#include "plan/transfer/row_cuts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::message_of;

std::vector<RowRange> chosen(const std::vector<std::int64_t>& bounds, const std::vector<RowRange>& runs) {
  return TokensOfRows(bounds).rows_overlapping(runs);
}

TEST(TokensOfRows, select_rows_with_a_token_in_the_run) {
  const std::vector<std::int64_t> bounds{0, 4, 4, 8, 8, 12};
  EXPECT_THAT(chosen(bounds, {{0, 2}}), ElementsAre(RowRange{0, 1}));
  EXPECT_THAT(chosen(bounds, {{3, 5}}), ElementsAre(RowRange{0, 2}));
  EXPECT_THAT(chosen(bounds, {{4, 8}}), ElementsAre(RowRange{1, 2}));
  EXPECT_THAT(chosen(bounds, {{12, 20}}), IsEmpty());
  EXPECT_THAT(chosen(bounds, {{5, 5}}), IsEmpty());
  EXPECT_THAT(chosen({}, {{0, 20}}), IsEmpty());
}

TEST(TokensOfRows, select_each_row_once_and_merge_neighbors) {
  const std::vector<std::int64_t> bounds{0, 4, 4, 8, 8, 12};
  EXPECT_THAT(chosen(bounds, {{0, 2}, {6, 8}}), ElementsAre(RowRange{0, 2}));
  EXPECT_THAT(chosen(bounds, {{0, 2}, {10, 12}}), ElementsAre(RowRange{0, 1}, RowRange{2, 3}));
  EXPECT_THAT(chosen({0, 12}, {{0, 2}, {10, 12}}), ElementsAre(RowRange{0, 1}));
}

TEST(TokensOfRows, may_overlap_and_leave_tokens_out) {
  const std::vector<std::int64_t> bounds{2, 6, 2, 6, 5, 9, 20, 21};
  EXPECT_THAT(chosen(bounds, {{0, 2}}), IsEmpty());
  EXPECT_THAT(chosen(bounds, {{5, 6}}), ElementsAre(RowRange{0, 3}));
  EXPECT_THAT(chosen(bounds, {{6, 20}}), ElementsAre(RowRange{2, 3}));
  EXPECT_THAT(chosen(bounds, {{2, 3}, {20, 24}}), ElementsAre(RowRange{0, 2}, RowRange{3, 4}));
}

TEST(TokensOfRows, match_a_linear_search) {
  std::mt19937 draw(3);
  const auto below = [&](int end) { return std::uniform_int_distribution<std::int64_t>(0, end - 1)(draw); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> bounds;
    RowRange tokens{0, 1};
    for (std::int64_t rows = below(8); rows > 0; --rows) {
      tokens.begin += below(5);
      tokens.end = std::max(tokens.end, tokens.begin + 1) + below(5);
      bounds.insert(bounds.end(), {tokens.begin, tokens.end});
    }
    std::vector<RowRange> runs;
    for (std::int64_t at = below(4), n = below(4); n > 0; --n) {
      runs.push_back({at, at + below(6)});
      at = runs.back().end + 1 + below(4);
    }
    std::vector<std::int64_t> expected;
    for (std::size_t row = 0; 2 * row < bounds.size(); ++row) {
      const auto meets = [&](const RowRange& run) {
        return std::max(run.begin, bounds[2 * row]) < std::min(run.end, bounds[2 * row + 1]);
      };
      if (std::ranges::any_of(runs, meets)) expected.push_back(static_cast<std::int64_t>(row));
    }
    std::vector<std::int64_t> rows;
    std::int64_t end = -1;
    for (const RowRange& range : chosen(bounds, runs)) {
      EXPECT_GT(range.begin, end) << "neighbors are joined";
      end = range.end;
      for (std::int64_t row = range.begin; row < range.end; ++row) rows.push_back(row);
    }
    ASSERT_EQ(rows, expected) << "round " << round;
  }
}

TEST(TokensOfRows, reject_ranges_that_are_empty_outside_the_sample_or_out_of_order) {
  const auto why = [](const std::vector<std::int64_t>& bounds) {
    return message_of([&] { TokensOfRows(bounds).require_valid({SampleId{4}, 0, 0, 8}, "spans"); });
  };
  EXPECT_NO_THROW(TokensOfRows(std::vector<std::int64_t>{0, 3, 0, 8, 7, 8})
                      .require_valid({SampleId{4}, 0, 0, 8}, "spans"));
  EXPECT_THAT(why({0, 3, 3, 3}),
              HasSubstr("field 'spans' of sample 4: gives row 1 the tokens [3, 3); the sample has 8 tokens"));
  EXPECT_THAT(why({-1, 3}), HasSubstr("row 0 the tokens [-1, 3)"));
  EXPECT_THAT(why({0, 9}), HasSubstr("row 0 the tokens [0, 9); the sample has 8 tokens"));
  EXPECT_THAT(why({4, 5, 3, 6}),
              HasSubstr("row 1 the tokens [3, 6), but the previous row has the tokens [4, 5)"));
  EXPECT_THAT(why({2, 6, 3, 5}),
              HasSubstr("row 1 the tokens [3, 5), but the previous row has the tokens [2, 6)"));
}

}  // namespace
}  // namespace evenkeel
