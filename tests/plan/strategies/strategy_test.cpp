#include "plan/strategies/strategy.hpp"

#include <gtest/gtest.h>

#include "plan/strategies/automatic.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

TEST(Strategies, reproduce_the_system_of_the_preset_whatever_the_mode) {
  PlanSettings settings;
  EXPECT_EQ(strategy_of(settings).reproduced_system(settings), "");
  for (const ReferenceSettings& reference :
       {ReferenceSettings{Preset::verl}, ReferenceSettings{Preset::verl, FixedSettings{}},
        ReferenceSettings{Preset::verl, PaddedSettings{}}}) {
    settings.strategy = reference;
    const PlanningStrategy& strategy = strategy_of(settings);
    EXPECT_EQ(strategy.reproduced_system(settings), "verl");
    EXPECT_EQ(strategy.pads_micro_batches(), reference.micro_batches.index() == 1);
    EXPECT_EQ(strategy.has_fixed_micro_batches(), reference.micro_batches.index() == 2);
  }
}

TEST(Strategies, depend_on_owners_only_if_placed_shares_are_cut_in_random_order) {
  PlanSettings settings;
  const auto depends = [&] { return strategy_of(settings).depends_on_owners(settings); };
  EXPECT_FALSE(depends());
  FixedSettings fixed;
  fixed.shuffle = true;
  settings.strategy = fixed;
  EXPECT_TRUE(depends());
  settings.strategy = ReferenceSettings{Preset::roll, fixed};
  EXPECT_FALSE(depends());
  settings.strategy = fixed;
  settings.balance.placement = PlacementRule::none;
  EXPECT_FALSE(depends());
}

TEST(Strategies, could_be_a_grid_unless_they_already_are_or_may_choose_one) {
  PlanSettings settings;
  EXPECT_TRUE(skips_compatible_grid(settings));
  settings.balance.meet = SyncPoint::step;
  EXPECT_FALSE(skips_compatible_grid(settings)) << "the plan decides";
  use<PackedSettings>(settings).allow_grid = false;
  EXPECT_TRUE(skips_compatible_grid(settings));
  const PlanSettings chosen = apply_strategy_choice(settings, StrategyChoice{2, 1});
  EXPECT_FALSE(skips_compatible_grid(chosen));
  EXPECT_EQ(apply_strategy_choice(settings, std::nullopt), settings);
  settings.strategy = PaddedSettings{};
  EXPECT_FALSE(skips_compatible_grid(settings));
}

}  // namespace
}  // namespace evenkeel
