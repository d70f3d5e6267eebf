#include <gtest/gtest.h>

#include <random>

#include "stream/former.hpp"
#include "stream_events.hpp"
#include "support/sanitized.hpp"

namespace evenkeel::stream {
namespace {

constexpr std::int64_t groups_of_step = 4;
constexpr std::int64_t num_steps = 10'000 / static_cast<std::int64_t>(testing_support::one_in);

/// A trainer that forms steps from a ledger, trains each step immediately, and uses the step's number as its
/// version.
class Trainer {
 public:
  explicit Trainer(StreamSettings settings) : keeper(std::move(settings)) {
    plan_.dp = 4;
    plan_.balance.cost = CostModel::flops_7b();
  }

  /// Sends samples whose lengths differ by orders of magnitude.
  void send(std::int64_t uid, std::int64_t version) {
    const auto length = static_cast<std::int64_t>(20 + draw() % 100 + (draw() % 9 == 0 ? draw() % 8000 : 0));
    keeper.tell(sample(uid, 0, version, length));
  }
  std::optional<StepFormed> form() {
    const std::vector<WaitingGroup> ready = keeper.ledger.ready();
    const std::vector<std::int64_t> coming = keeper.ledger.versions_of_expected_groups();
    const FormStepInput problem{
        ready, coming, step_, keeper.ledger.version(), groups_of_step, false, keeper.ledger.settings(),
        plan_};
    auto formed = form_step(problem);
    if (!formed) return formed;
    keeper.tell(*formed);
    keeper.tell(StepTrained{step_});
    keeper.tell(VersionPublished{++step_});
    return formed;
  }

  Keeper keeper;
  std::mt19937_64 draw{11};

 private:
  PlanSettings plan_;
  std::int64_t step_ = 0;
};

TEST(Former, no_group_waits_longer_beyond_its_turn_than_it_looks_ahead_in_10000_steps) {
  for (const std::int64_t look_ahead : {0, 1, 3}) {
    StreamSettings settings;
    settings.look_ahead = look_ahead;
    Trainer trainer(settings);
    std::int64_t sent = 0;
    std::int64_t longest = 0;
    for (std::int64_t step = 0; step < num_steps; ++step) {
      // The number of waiting groups equals the window, or is somewhat larger or smaller.
      const auto wanted = (step + 1) * groups_of_step + static_cast<std::int64_t>(trainer.draw() % 20);
      while (sent < wanted) trainer.send(sent++, 0);
      const auto formed = trainer.form();
      ASSERT_TRUE(formed.has_value());
      // With first come, first served, group n is in step n / groups_of_step.
      for (const FormedGroup& group : formed->groups)
        longest = std::max(longest, step - std::get<std::int64_t>(group.uid) / groups_of_step);
    }
    EXPECT_LE(longest, look_ahead);
    EXPECT_GE(longest, look_ahead / 2) << "it did look ahead";
    EXPECT_EQ(trainer.keeper.ledger.status().trained.samples, num_steps * groups_of_step);
  }
}

TEST(Former, no_granted_group_that_arrives_at_once_goes_stale_in_10000_steps) {
  for (const std::int64_t max_staleness : {0, 1, 4}) {
    StreamSettings settings;
    settings.look_ahead = 3;
    settings.max_staleness = max_staleness;
    Trainer trainer(settings);
    std::int64_t sent = 0;
    for (std::int64_t step = 0; step < num_steps; ++step) {
      const Ledger& ledger = trainer.keeper.ledger;
      auto granted = ledger.count_grantable_groups(groups_of_step);
      if (trainer.draw() % 3 == 0 && ledger.status().ready_groups >= groups_of_step)
        granted = static_cast<std::int64_t>(trainer.draw() % (static_cast<std::uint64_t>(granted) + 1));
      for (; granted > 0; --granted) trainer.send(sent++, ledger.version());
      ASSERT_TRUE(trainer.form().has_value());
    }
    EXPECT_EQ(dropped(trainer.keeper.ledger, DropReason::stale), 0);
  }
}

TEST(Former, no_step_has_a_stale_group_in_10000_steps) {
  StreamSettings settings;
  settings.look_ahead = 2;
  settings.max_staleness = 2;
  settings.on_stale = OnStale::drop;
  Trainer trainer(settings);
  std::int64_t sent = 0;
  std::int64_t formed_groups = 0;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const std::int64_t version = trainer.keeper.ledger.version();
    for (auto more = trainer.draw() % 12; more > 0; --more)
      trainer.send(sent++,
                   std::max<std::int64_t>(0, version - static_cast<std::int64_t>(trainer.draw() % 4)));
    const std::vector<WaitingGroup> ready = trainer.keeper.ledger.ready();
    const auto formed = trainer.form();
    if (!formed) continue;
    formed_groups += std::ssize(formed->groups);
    for (const FormedGroup& group : formed->groups) {
      const auto found = std::ranges::find(ready, group.uid, &WaitingGroup::uid);
      ASSERT_LE(version - found->version(), 2);
    }
  }
  const Status status = trainer.keeper.ledger.status();
  EXPECT_EQ(status.received, sum_of(status));
  EXPECT_EQ(status.trained.samples, formed_groups);
  EXPECT_GT(dropped(trainer.keeper.ledger, DropReason::stale), 0);
}

}  // namespace
}  // namespace evenkeel::stream
