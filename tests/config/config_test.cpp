#include "evenkeel/config/config.hpp"

#include <gtest/gtest.h>

#include "config/fixtures.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(ConfigGrid, dp_is_what_remains_of_the_world) {
  Config config;
  config.mesh.tp = 2;
  config.mesh.cp = 2;
  EXPECT_EQ(config.grid(8).sizes(), (GridPoint{.tp = 2, .cp = 2, .dp = 2, .pp = 1}));
}

TEST(ConfigGrid, a_dp_that_is_given_must_fill_the_world) {
  Config config;
  config.mesh.tp = 2;
  config.mesh.dp = 3;
  EXPECT_EQ(config.grid(6).num_ranks(), 6);
  EXPECT_THROW(static_cast<void>(config.grid(8)), MeshError);
}

TEST(ConfigGrid, a_world_that_does_not_divide_is_refused) {
  Config config;
  config.mesh.tp = 3;
  EXPECT_THROW(static_cast<void>(config.grid(8)), MeshError);
}

TEST(ConfigGrid, runs_in_the_configured_order) {
  Config config;
  config.mesh.tp = 2;
  config.mesh.order = RankOrder("dp-tp-cp-pp");
  EXPECT_EQ(config.grid(8).point_of(WorldRank{1}), (GridPoint{.tp = 0, .cp = 0, .dp = 1, .pp = 0}));
}

TEST(ConfigPlanSettings, take_sizes_from_the_grid_and_the_rest_from_the_file) {
  const Config config = test::changed_config();
  const PlanSettings settings = config.plan_settings({.tp = 8, .cp = 6, .dp = 9, .pp = 10});
  EXPECT_EQ(settings.tp, 8);
  EXPECT_EQ(settings.cp, (CpGroup{6, CpLayout::contiguous}));
  EXPECT_EQ(settings.dp, 9);
  EXPECT_EQ(settings.pp, 10);
  EXPECT_EQ(settings.vpp, 5);
  EXPECT_EQ(settings.align, 32);
  EXPECT_EQ(settings.align_lcm, 48);
  EXPECT_EQ(settings.balance, config.balance);
  EXPECT_EQ(settings.micro_batch, config.micro_batch);
}

}  // namespace
}  // namespace evenkeel
