#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/id_range.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/branching_step.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/strategies/grid_micro_batches.hpp"
#include "support/ids.hpp"

namespace evenkeel {
namespace {

using testing::UnorderedElementsAre;
using testing_support::all_ids;
using testing_support::any_branching_step;
using testing_support::branching_step;
using testing_support::BranchingStep;
using testing_support::path;

PlanSettings grid_of_trees(int dp, std::int64_t cap) {
  PlanSettings settings;
  settings.dp = dp;
  settings.sharing = PrefixSharing::trees;
  settings.strategy = GridSettings{};
  settings.micro_batch.max_tokens = cap;
  settings.micro_batch.order = MicroBatchOrder::plan;
  return settings;
}

std::vector<std::int64_t> rows_of_ranks(const StepPlan& plan) {
  std::vector<std::int64_t> rows;
  for (const DpRankPlan& rank : plan.ranks) rows.push_back(rank.tokens());
  return rows;
}

TEST(LevelGrids, moves_a_path_to_a_waiting_rank_even_if_its_prefix_is_computed_twice) {
  const BranchingStep step =
      branching_step({{1, path(14, 4)}, {1, path(14, 4)}, {1, path(14, 4)}, {2, path(12, 0)}});
  const StepProblem problem{step.table, grid_of_trees(2, 40), 0, step.trees};
  EXPECT_THAT(rows_of_ranks(plan_step(problem)), UnorderedElementsAre(24, 26));
  EXPECT_EQ(assign_and_plan(problem).assignment.units.repeated(), (RepeatedTokens{0, 0, 0, 0, 4}));
}

TEST(LevelGrids, moves_no_path_if_the_repeated_prefix_exceeds_the_cap) {
  const BranchingStep step =
      branching_step({{1, path(14, 4)}, {1, path(14, 4)}, {1, path(14, 4)}, {2, path(21, 0)}});
  const StepProblem problem{step.table, grid_of_trees(2, 34), 0, step.trees};
  EXPECT_THAT(rows_of_ranks(plan_step(problem)), UnorderedElementsAre(34, 21));
}

TEST(LevelGrids, moves_responses_with_their_prompt_if_only_prompts_are_shared) {
  std::vector<LengthEntry> entries;
  for (int i = 0; i < 4; ++i)
    entries.push_back({{SampleId{i}, i < 3 ? 1U : 2U, i < 3 ? 4 : 0, i < 3 ? 10 : 12}, WorldRank{0}, i});
  const LengthTable table(std::move(entries));
  PlanSettings settings = grid_of_trees(2, 40);
  settings.sharing = PrefixSharing::prompts;
  const StepProblem problem{table, settings};
  EXPECT_THAT(rows_of_ranks(plan_step(problem)), UnorderedElementsAre(24, 26));
  const PackUnits units = assign_and_plan(problem).assignment.units;
  for (const UnitId unit : ids_below<UnitId>(units.size()))
    EXPECT_EQ(units[unit].tree->size(), 1 + std::ssize(units[unit].entries)) << "a prompt and its responses";
}

TEST(LevelGrids, use_the_work_of_a_field_if_balance_cost_names_one) {
  BranchingStep step =
      branching_step({{1, path(14, 4)}, {1, path(14, 4)}, {1, path(14, 4)}, {2, path(12, 0)}});
  step.table.set_field_sums({{"work", {5, 5, 5, 30}}});
  PlanSettings settings = grid_of_trees(2, 40);
  settings.balance.cost_field = "work";
  const StepProblem problem{step.table, settings, 0, step.trees};
  EXPECT_THAT(rows_of_ranks(plan_step(problem)), UnorderedElementsAre(34, 12));
}

PlanSettings any_grid(const LengthTable& table) {
  PlanSettings settings = grid_of_trees(*rc::gen::inRange(1, 6), 1);
  settings.tp = *rc::gen::inRange(1, 4);
  settings.balance.cost = *rc::gen::element(CostModel::tokens(), CostModel::flops_7b());
  settings.mini_batches.count = *rc::gen::inRange(1, 3);
  if (*rc::gen::arbitrary<bool>()) settings.micro_batch.max_samples = *rc::gen::inRange<std::int64_t>(1, 6);
  const std::int64_t longest = std::ranges::max(table.sample_lengths());
  settings.micro_batch.max_tokens =
      align_up(longest, settings.alignment()) * *rc::gen::inRange<std::int64_t>(1, 4);
  return settings;
}

/// Returns the time of ranks that are synchronized at every column.
Cost end_time_of(const PackUnits& units, const PlannedGrid& grid) {
  Cost end = 0;
  for (std::int64_t j = 0; j < grid.shape.columns; ++j) {
    Cost most = 0;
    for (std::int64_t row = 0; row < grid.shape.rows; ++row)
      most = std::max(most, figures_of(units, grid.at(row, j)).cost);
    end += most;
  }
  return end;
}

RC_GTEST_PROP(LevelGrids, never_end_later_and_keep_every_sample_and_limit, ()) {
  const BranchingStep step = any_branching_step();
  const PlanSettings settings = any_grid(step.table);
  const StepProblem problem{step.table, settings, 0, step.trees};
  PackUnits units = make_units(problem);
  const std::int64_t columns = (units.size() + settings.dp - 1) / settings.dp;
  PlannedGrid grid{{settings.dp, columns}, {}, {}};
  grid.cells.resize(static_cast<std::size_t>(settings.dp * columns));
  for (const UnitId unit : ids_below<UnitId>(units.size()))
    grid.cells[unit.index() % grid.cells.size()].push_back(unit);
  const Cost before = end_time_of(units, grid);
  level_grids(problem, units, std::span(&grid, 1));
  RC_ASSERT(end_time_of(units, grid) <= before);
  std::vector<UnitId> placed;
  std::vector<EntryId> entries;
  for (const std::vector<UnitId>& cell : grid.cells) {
    const MicroBatchFigures figures = figures_of(units, cell);
    RC_ASSERT(figures.aligned_tokens <= settings.micro_batch.max_tokens);
    std::int64_t samples = 0;
    for (const UnitId unit : cell) {
      placed.push_back(unit);
      samples += std::ssize(units[unit].entries);
      entries.insert(entries.end(), units[unit].entries.begin(), units[unit].entries.end());
    }
    RC_ASSERT(samples <= settings.limits().max_items);
  }
  std::ranges::sort(placed);
  std::ranges::sort(entries);
  RC_ASSERT(placed == all_ids<UnitId>(units.size()));
  RC_ASSERT(entries == all_ids<EntryId>(step.table.size()));
}

RC_GTEST_PROP(LevelGrids, count_tokens_repeated_by_their_parts, ()) {
  const BranchingStep step = any_branching_step();
  const PlanSettings settings = any_grid(step.table);
  const StepProblem problem{step.table, settings, 0, step.trees};
  const StepPlan plan = plan_step(problem);
  std::int64_t rows = 0;
  for (const DpRankPlan& rank : plan.ranks) rows += rank.tokens();
  for (const SharedGroup& whole : step.trees) rows -= whole.tree.num_rows();
  const RepeatedTokens repeated = assign_and_plan(problem).assignment.units.repeated();
  RC_ASSERT(std::reduce(repeated.begin(), repeated.end()) == rows);
  RC_ASSERT(plan == plan_step(problem));
}

}  // namespace
}  // namespace evenkeel
