#include "evenkeel/config/config.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/fixtures.hpp"
#include "config/refusal.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(ConfigGrid, dp_uses_the_remaining_ranks) {
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

/// Returns a configuration in which every number of tokens is written as `number`.
Config with_tokens(const std::string& number) {
  std::string yaml =
      "micro_batch: {max_tokens: N, length_round: N}\npack: {align: N, align_lcm: N}\nloss: {norm_length: "
      "N}\n"
      "batch: {max_length: N, outlier_length: N}\nbalance: {cost: {linear: 1, quadratic: 2, window: N}}\n";
  for (std::size_t at = 0; (at = yaml.find('N', at)) != std::string::npos;) yaml.replace(at, 1, number);
  return parse_config(yaml, "job.yaml");
}

TEST(ConfigTokens, with_a_unit_are_multiples_of_1024_wherever_tokens_are_counted) {
  const Config expected = with_tokens("32768");
  for (const char* number : {"32k", "32K", "\"32k\""}) EXPECT_EQ(with_tokens(number), expected);
  EXPECT_EQ(with_tokens("1M"), with_tokens("1048576"));
  EXPECT_EQ(to_yaml(with_tokens("32k")), to_yaml(expected));
}

TEST(ConfigTokens, mean_the_same_in_the_file_in_overrides_and_in_profiles) {
  const std::vector<std::string> set{"micro_batch.max_tokens_per_rank=4k",
                                     "profiles.update.micro_batch.max_tokens=64k"};
  EXPECT_EQ(parse_config("{}", "job.yaml", set),
            parse_config("micro_batch: {max_tokens_per_rank: 4096}\n"
                         "profiles: {update: {micro_batch: {max_tokens: 65536}}}\n",
                         "job.yaml"));
}

TEST(ConfigTokens, have_the_limits_that_they_have_without_a_unit) {
  EXPECT_EQ(test::refusal("micro_batch: {max_tokens: 2048M}"),
            "job.yaml:1: micro_batch.max_tokens: 2048M is out of range; allowed: 1 to 2147483647, or auto");
  EXPECT_EQ(test::refusal("micro_batch: {max_tokens: 99999999999999999999M}"),
            "job.yaml:1: micro_batch.max_tokens: 99999999999999999999M is out of range; allowed: 1 to "
            "2147483647, or auto");
  for (const char* wrong : {"k", "1.5k", "-1k", "1m", "32kb", "1 k", "0x1k"}) {
    EXPECT_EQ(test::refusal("", {"micro_batch.max_tokens=" + std::string(wrong)}),
              "--set micro_batch.max_tokens=" + std::string(wrong) +
                  ": expected a number of tokens (32768 or 32k) or auto, found " + wrong);
  }
}

TEST(ConfigTokens, only_tokens_have_units) {
  EXPECT_EQ(test::refusal("batch: {global_batch: 1k}"),
            "job.yaml:1: batch.global_batch: expected an integer, found 1k");
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
