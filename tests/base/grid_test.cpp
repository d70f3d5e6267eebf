#include "evenkeel/base/grid.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <algorithm>
#include <set>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> all_orders() {
  std::vector<std::string> names{"cp", "dp", "pp", "tp"};
  std::vector<std::string> orders;
  do {
    orders.push_back(names[0] + "-" + names[1] + "-" + names[2] + "-" + names[3]);
  } while (std::ranges::next_permutation(names).found);
  return orders;
}

std::vector<GridPoint> all_sizes(int max_ranks) {
  std::vector<GridPoint> sizes;
  for (int tp = 1; tp <= max_ranks; ++tp) {
    for (int cp = 1; tp * cp <= max_ranks; ++cp) {
      for (int dp = 1; tp * cp * dp <= max_ranks; ++dp) {
        for (int pp = 1; tp * cp * dp * pp <= max_ranks; ++pp) sizes.push_back({tp, cp, dp, pp});
      }
    }
  }
  return sizes;
}

TEST(Grid, megatrons_order_runs_tp_fastest_then_cp_dp_pp) {
  const Grid grid({2, 2, 2, 1}, {});
  EXPECT_EQ(grid.point_of(WorldRank{5}), (GridPoint{1, 0, 1, 0}));
  EXPECT_EQ(grid.rank_of({0, 1, 1, 0}), WorldRank{6});
}

TEST(Grid, ranks_and_points_are_a_bijection_for_every_size_up_to_64_and_every_order) {
  const std::vector<GridPoint> sizes = all_sizes(64);
  for (const std::string& order : all_orders()) {
    for (const GridPoint& size : sizes) {
      const Grid grid(size, RankOrder(order));
      std::set<std::array<int, 4>> seen;
      for (int rank = 0; rank < grid.num_ranks(); ++rank) {
        const GridPoint p = grid.point_of(WorldRank{rank});
        ASSERT_TRUE(p.tp < size.tp && p.cp < size.cp && p.dp < size.dp && p.pp < size.pp);
        ASSERT_EQ(grid.rank_of(p), WorldRank{rank});
        seen.insert({p.tp, p.cp, p.dp, p.pp});
      }
      ASSERT_EQ(seen.size(), static_cast<std::size_t>(grid.num_ranks()));
    }
  }
}

TEST(Grid, the_first_axis_of_the_order_has_neighboring_ranks) {
  for (const std::string& order : all_orders()) {
    const Grid grid({2, 3, 2, 2}, RankOrder(order));
    const std::vector<WorldRank> line =
        grid.line_through(grid.point_of(WorldRank{0}), grid.order().axes()[0]);
    for (std::size_t i = 0; i < line.size(); ++i) EXPECT_EQ(line[i], WorldRank{static_cast<int>(i)}) << order;
  }
}

TEST(Grid, lines_along_an_axis_cover_every_rank_once) {
  for (const GridPoint& size : all_sizes(16)) {
    const Grid grid(size, RankOrder("dp-tp-pp-cp"));
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp}) {
      std::multiset<int> covered;
      for (int rank = 0; rank < grid.num_ranks(); ++rank) {
        const GridPoint point = grid.point_of(WorldRank{rank});
        if (point[axis] != 0) continue;
        for (const WorldRank member : grid.line_through(point, axis)) covered.insert(member.value());
      }
      ASSERT_EQ(covered.size(), static_cast<std::size_t>(grid.num_ranks()));
      ASSERT_EQ(std::set<int>(covered.begin(), covered.end()).size(), covered.size());
    }
  }
}

TEST(Grid, line_through_a_point_rises_along_the_axis) {
  const Grid grid({2, 2, 2, 1}, {});
  EXPECT_THAT(grid.line_through({1, 0, 0, 0}, Axis::dp), ElementsAre(WorldRank{1}, WorldRank{5}));
}

TEST(Grid, dp_auto_uses_the_remaining_ranks) {
  EXPECT_EQ(Grid::fill_dp({2, 2, 99, 1}, {}, 8).sizes(), (GridPoint{2, 2, 2, 1}));
  EXPECT_EQ(Grid::fill_dp({1, 1, 0, 1}, {}, 7).sizes().dp, 7);
}

TEST(Grid, dp_auto_reports_a_remainder_and_the_number_of_ranks_to_start) {
  try {
    (void)Grid::fill_dp({2, 2, 1, 1}, {}, 6);
    FAIL() << "4 does not divide 6";
  } catch (const MeshError& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not divide the 6 ranks"));
    EXPECT_THAT(error.what(), HasSubstr("multiple of 4"));
  }
}

TEST(Grid, dp_auto_with_too_many_ranks_to_number_is_refused) {
  constexpr int most = std::numeric_limits<int>::max();
  EXPECT_THROW((void)Grid::fill_dp({most, most, 1, most}, {}, 8), MeshError);
  EXPECT_THROW((void)Grid::fill_dp({1 << 20, 1 << 20, 1, 1 << 20}, {}, 8), MeshError);
}

TEST(Grid, a_grid_that_does_not_fill_the_world_shows_its_product) {
  const Grid grid({2, 2, 2, 2}, {});
  EXPECT_NO_THROW(grid.require_world(16));
  try {
    grid.require_world(8);
    FAIL() << "16 ranks are not 8";
  } catch (const MeshError& error) {
    EXPECT_THAT(error.what(), HasSubstr("= 16 ranks, but the world has 8"));
  }
}

TEST(Grid, sizes_below_one_and_ranks_outside_are_refused) {
  EXPECT_THROW(Grid({0, 1, 1, 1}, {}), MeshError);
  EXPECT_THROW(Grid({1 << 16, 1 << 16, 1, 1}, {}), MeshError);
  const Grid grid({1, 2, 1, 1}, {});
  EXPECT_THROW((void)grid.point_of(WorldRank{2}), MeshError);
  EXPECT_THROW((void)grid.point_of(WorldRank{-1}), MeshError);
  EXPECT_THROW((void)grid.rank_of({0, 2, 0, 0}), MeshError);
}

TEST(RankOrder, reads_back_what_was_written) {
  for (const std::string& order : all_orders()) EXPECT_EQ(RankOrder(order).text(), order);
  EXPECT_EQ(RankOrder().text(), "tp-cp-dp-pp");
}

TEST(RankOrder, anything_but_the_four_axes_once_is_refused) {
  for (const char* text :
       {"", "tp", "tp-cp-dp", "tp-cp-dp-dp", "tp-cp-dp-pp-tp", "tp-cp-ep-pp", "tp,cp,dp,pp"}) {
    EXPECT_THROW(RankOrder{text}, ConfigError) << text;
  }
}

}  // namespace
}  // namespace evenkeel
