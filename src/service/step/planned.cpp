#include "service/step/planned.hpp"

#include <array>
#include <utility>

#include "base/activity.hpp"
#include "evenkeel/base/assertions.hpp"
#include "exchange/gather/broadcast_assignment.hpp"
#include "plan/assign/dp_rank_plans.hpp"

namespace evenkeel {
namespace {

// Collective: returns whether all ranks have the same plan, which they should, since they plan from equal
// input. Also returns true if any rank has failed.
bool plans_are_equal(const Communicator& world, std::uint64_t hash, bool failed) {
  const auto word = static_cast<std::int64_t>(hash);
  std::array<std::int64_t, 3> most{failed ? 1 : 0, word, ~word};
  world.all_reduce(most, ReduceOp::max);
  return most[0] != 0 || most[1] == ~most[2];
}

// Plans the micro-batches of this rank's DP rank. Collective.
void plan_own_rank(const StepContext& context, const StepProblem& problem, Planned& planned,
                   GuardedWork& work) {
  const Mesh& mesh = context.mesh;
  const std::array own{DpRank{mesh.here().dp}};
  RankPeers peers(mesh.along(Axis::dp), work);
  StepPlan plan = plan_dp_ranks(problem, planned.assignment, own, peers);
  if constexpr (EVENKEEL_ASSERTS(communication)) {
    const std::uint64_t hash = work.failed() ? 0 : plan_hash(planned.assignment.shares, plan.counts);
    EVENKEEL_INVARIANT(communication, plans_are_equal(mesh.world(), hash, work.failed()), hash,
                       mesh.world().rank(), problem.step);
  }
  work([&] { planned.plan = std::move(plan.ranks.front()); });
  planned.gathered.pass.seconds.agree = peers.seconds();
}

// Rank in the node's communicator that computes results on behalf of its node and broadcasts them. All nodes
// compute the same results.
constexpr int planner_of_node = 0;

}  // namespace

std::optional<StrategyChoice> decide_strategy(const StepContext& context, const StepProblem& problem,
                                              GuardedWork& work) {
  if (!is_strategy_open(problem.settings)) return std::nullopt;
  return choose_strategy_together(context.mesh.node(), planner_of_node, problem, work);
}

StepAssignment assign(const StepContext& context, const StepProblem& problem, GuardedWork& work) {
  return assign_together(context.mesh.node(), planner_of_node, problem, work);
}

Planned plan_pass(const StepContext& context, Gathered gathered, GuardedWork& work) {
  Phase::switch_to("plan");
  Planned planned;
  planned.gathered = std::move(gathered);
  Pass& pass = planned.gathered.pass;
  planned.settings = pass.settings;
  const StepProblem problem{planned.samples().table, planned.settings, planned.gathered.index,
                            planned.samples().trees};
  planned.strategy = decide_strategy(context, problem, work);
  planned.settings = with_choice(planned.settings, planned.strategy);
  planned.assignment = assign(context, problem, work);
  plan_own_rank(context, problem, planned, work);
  pass.seconds.plan = pass.stopwatch.lap() - pass.seconds.agree;
  return planned;
}

}  // namespace evenkeel
