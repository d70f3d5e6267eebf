#include "exchange/gather/broadcast_assignment.hpp"

#include <gtest/gtest.h>

#include "evenkeel/plan/shared_groups.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing_support::made_up_table;

boost::mpi::communicator this_node() {
  return Communicator(boost::mpi::communicator()).split_by_node();
}

PlanSettings settings_with_cap(std::int64_t max_tokens) {
  PlanSettings settings;
  settings.dp = 4;
  settings.micro_batch.max_tokens = max_tokens;
  for (int rank = 0; rank < settings.dp; ++rank) settings.dp_of_rank.push_back((rank + 1) % settings.dp);
  return settings;
}

StepAssignment assigned_together(const boost::mpi::communicator& node, const LengthTable& table,
                                 const PlanSettings& settings, std::int64_t step) {
  GuardedWork work;
  StepAssignment assignment = assign_together(node, 0, {table, settings, step}, work);
  work.agree(node);
  return assignment;
}

TEST(AssignOnNode, gives_every_rank_the_assignment_that_each_would_compute) {
  const boost::mpi::communicator node = this_node();
  for (const std::int64_t samples : {0, 1, 30, 511, 512, 2000}) {
    const LengthTable table = made_up_table(samples, 4);
    for (const std::int64_t mini_batches : {1, 3}) {
      for (const StrategySettings& strategy :
           {StrategySettings(PackedSettings{}), StrategySettings(PaddedSettings{})}) {
        PlanSettings settings = settings_with_cap(200);
        settings.mini_batches.count = mini_batches;
        settings.strategy = strategy;
        EXPECT_EQ(assigned_together(node, table, settings, 5), assign_step({table, settings, 5}))
            << samples << " samples, " << mini_batches << " mini-batches";
      }
    }
  }
}

TEST(AssignOnNode, completes_assignments_that_units_do_not_determine) {
  const boost::mpi::communicator node = this_node();
  const LengthTable table = made_up_table(700, 4);
  PlanSettings grid = settings_with_cap(200);
  grid.strategy = GridSettings{};
  EXPECT_EQ(assigned_together(node, table, grid, 0), assign_step({table, grid}));
  PlanSettings prompts = settings_with_cap(200);
  prompts.sharing = PrefixSharing::prompts;
  EXPECT_EQ(assigned_together(node, table, prompts, 0), assign_step({table, prompts}));
}

TEST(AssignOnNode, a_failed_assignment_is_everybodys_error_and_the_next_step_works) {
  const boost::mpi::communicator node = this_node();
  const LengthTable table = made_up_table(600, 4);
  EXPECT_THROW((void)assigned_together(node, table, settings_with_cap(8), 0), LimitError);
  EXPECT_THROW((void)assigned_together(node, table, settings_with_cap(0), 0), ConfigError);
  const PlanSettings settings = settings_with_cap(200);
  EXPECT_EQ(assigned_together(node, table, settings, 0), assign_step({table, settings}));
}

}  // namespace
}  // namespace evenkeel
