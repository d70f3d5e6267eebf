#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/row_routes.hpp"
#include "pack/routes/cut_group.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::all_cuts;
using test::zigzag2;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<RowRoute<>> routes_of(const test::CutLayout& cut, RowCut from, RowCut to) {
  std::vector<RowRoute<>> routes;
  for (const RowMember member : test::members_of(cut.layout, cut.tp))
    routes.push_back(row_route(cut.layout, from, to, member));
  return routes;
}

bool lists_each_once(std::vector<std::int64_t> rows, std::int64_t count) {
  std::ranges::sort(rows);
  const auto all = std::views::iota(std::int64_t{0}, count);
  return std::ranges::equal(rows, all);
}

const PackedLayout eight_and_four(Lengths{8, 4}, 4, zigzag2);

TEST(RowRoute, lists_rows_to_send_and_rows_that_arrive_by_member) {
  const RowRoute<> route = row_route(eight_and_four, RowCut::zigzag, RowCut::flat, {CpRank{0}});
  EXPECT_THAT(route.send_rows, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(route.send_counts, ElementsAre(2, 4));
  EXPECT_THAT(route.receive_rows, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(route.receive_counts, ElementsAre(2, 4));
  EXPECT_THAT(row_route(eight_and_four, RowCut::zigzag, RowCut::contiguous, {CpRank{0}}).send_rows,
              ElementsAre(0, 1, 4, 2, 3, 5));
}

TEST(RowRoute, is_local_from_a_cut_to_itself) {
  for (const RowCut cut : all_cuts) {
    const RowRoute<> route = row_route(eight_and_four, cut, cut, {CpRank{1}});
    EXPECT_THAT(route.send_counts, ElementsAre(0, 6));
    EXPECT_EQ(route, route.reversed());
  }
}

// CP rank 0 has rows 0 1 6 7 8 11 of the micro-batch, and the second of its two ranks 7 8 11.
TEST(RowRoute, numbers_members_with_tensor_parallelism_fastest) {
  const RowRoute<> route = row_route(eight_and_four, RowCut::zigzag, RowCut::flat, {CpRank{0}, {1, 2}});
  EXPECT_THAT(route.send_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(route.send_counts, ElementsAre(0, 0, 2, 1));
  EXPECT_THAT(route.receive_counts, ElementsAre(0, 0, 2, 1));
}

RC_GTEST_PROP(RowRoute, moves_every_row_from_one_cut_to_the_other, ()) {
  const test::CutLayout cut = test::arbitrary_cut_layout();
  const RowCut from = *rc::gen::elementOf(std::vector(std::begin(all_cuts), std::end(all_cuts)));
  const RowCut to = *rc::gen::elementOf(std::vector(std::begin(all_cuts), std::end(all_cuts)));
  const std::vector<RowRoute<>> routes = routes_of(cut, from, to);
  const std::vector<std::int64_t> rows(routes.size(), cut.layout.local_rows() / cut.tp);
  const test::MemberValues moved =
      test::exchanged(test::rows_by_definition(cut.layout, from, cut.tp), routes, rows);
  RC_ASSERT(moved == test::rows_by_definition(cut.layout, to, cut.tp));
}

RC_GTEST_PROP(RowRoute, reversed_is_the_route_back_and_no_row_goes_twice, ()) {
  const test::CutLayout cut = test::arbitrary_cut_layout();
  const std::vector<RowRoute<>> there = routes_of(cut, RowCut::zigzag, RowCut::flat);
  const std::vector<RowRoute<>> back = routes_of(cut, RowCut::flat, RowCut::zigzag);
  for (std::size_t m = 0; m < there.size(); ++m) {
    RC_ASSERT(there[m].reversed() == back[m]);
    RC_ASSERT(lists_each_once(there[m].send_rows, cut.layout.local_rows() / cut.tp));
    RC_ASSERT(lists_each_once(there[m].receive_rows, cut.layout.local_rows() / cut.tp));
  }
}

RC_GTEST_PROP(RowRoute, is_the_same_in_int32_and_int64, ()) {
  const test::CutLayout cut = test::arbitrary_cut_layout();
  const RowMember member = test::members_of(cut.layout, cut.tp).back();
  const auto small = row_route<std::int32_t>(cut.layout, RowCut::zigzag, RowCut::contiguous, member);
  const auto large = row_route<std::int64_t>(cut.layout, RowCut::zigzag, RowCut::contiguous, member);
  RC_ASSERT(std::ranges::equal(small.send_rows, large.send_rows));
  RC_ASSERT(std::ranges::equal(small.receive_rows, large.receive_rows));
  RC_ASSERT(std::ranges::equal(small.send_counts, large.send_counts));
  RC_ASSERT(std::ranges::equal(small.receive_counts, large.receive_counts));
}

TEST(RowRoute, reuses_the_memory_of_another_route) {
  RowRoute<> spare{std::vector<std::int64_t>(100, 7), {7}, std::vector<std::int64_t>(100, 7), {7, 7, 7}};
  const std::int64_t* const memory = spare.send_rows.data();
  const RowRoute<> route =
      row_route(eight_and_four, RowCut::zigzag, RowCut::flat, {CpRank{0}}, std::move(spare));
  EXPECT_EQ(route, row_route(eight_and_four, RowCut::zigzag, RowCut::flat, {CpRank{0}}));
  EXPECT_EQ(route.send_rows.data(), memory);
}

TEST(RowRoute, of_a_cut_that_is_impossible_is_an_error_that_names_the_sequence) {
  const PackedLayout thirds(Lengths{4, 9}, 3, {3, CpLayout::contiguous});
  try {
    (void)row_route(thirds, RowCut::contiguous, RowCut::zigzag, {CpRank{0}});
    FAIL() << "9 rows are not 6 equal chunks";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequence 1"));
    EXPECT_THAT(error.what(), HasSubstr("6 equal chunks"));
  }
  EXPECT_THROW((void)row_route(thirds, RowCut::contiguous, RowCut::flat, {CpRank{0}, {0, 2}}), InputError);
}

TEST(RowRoute, of_a_member_outside_the_group_is_an_error) {
  for (const RowMember member : {RowMember{CpRank{2}}, RowMember{CpRank{-1}}, RowMember{CpRank{0}, {2, 2}},
                                 RowMember{CpRank{0}, {-1, 2}}, RowMember{CpRank{0}, {0, 0}},
                                 RowMember{CpRank{0}, {0, std::numeric_limits<int>::max()}}}) {
    EXPECT_THROW((void)row_route(eight_and_four, RowCut::zigzag, RowCut::flat, member), InputError);
  }
}

}  // namespace
}  // namespace evenkeel
