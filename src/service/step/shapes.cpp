// Chooses the shapes of micro-batches in steps with micro_batch.shapes.
#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "exchange/gather/broadcast_assignment.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/micro_batches/shape_choice.hpp"
#include "plan/settings/field_costs.hpp"
#include "plan/strategies/strategy.hpp"
#include "plan/units/row_caps.hpp"
#include "service/step/planned.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

using Shapes = std::vector<PackedShape>;

/// Shape that a micro-batch of a pass needs. Sent to other ranks as raw bytes.
struct Need {
  std::int64_t pass = 0;
  PackedShape shape;
};

/// A pass over the step's samples, with the shapes that it needs: the current pass, or a possible later pass,
/// which is planned here only to determine these shapes.
struct PlannedPass {
  PlanSettings settings;
  StepAssignment assignment;
  std::vector<PackedShape> needed;  // shapes needed by this rank's DP rank
};

// Returns the shapes that the micro-batches led by this DP rank (MicroBatchPlan::is_led_by()) need. Each
// micro-batch has one leader, so its shape is counted once.
std::vector<PackedShape> needs_of(const LengthTable& table, DpRank rank,
                                  std::span<const MicroBatchPlan> plans, const PlanSettings& settings) {
  std::vector<PackedShape> needed;
  for (const MicroBatchPlan& plan : plans)
    if (plan.is_led_by(rank)) needed.push_back(needed_shape(table, plan, settings));
  return needed;
}

std::vector<PassNeeds> group_by_pass(std::span<const PlannedPass> passes, std::span<const Need> needs) {
  std::vector<PassNeeds> of_passes;
  for (const PlannedPass& pass : passes) of_passes.push_back({&pass.settings, {}});
  for (const Need& need : needs) of_passes[static_cast<std::size_t>(need.pass)].needed.push_back(need.shape);
  return of_passes;
}

// Returns whether a pass with these settings is possible now. It is not possible if a sample exceeds a cap,
// or if the pass is balanced by a field that the samples do not have. A later pass may still be possible if
// an earlier pass adds the field.
bool is_pass_possible(const LengthTable& table, const PlanSettings& settings) {
  try {
    strategy_of(settings).require_samples_fit(table, settings);
    require_within_row_caps(table, settings.micro_batch);
    if (settings.balance.cost_field) (void)field_costs_of(table, *settings.balance.cost_field);
    return true;
  } catch (const LimitError&) {
    return false;
  } catch (const InputError&) {
    return false;
  }
}

// Returns the passes whose needs determine the shapes: this pass and possible later passes of the step.
std::vector<PlannedPass> passes_of(const StepContext& context, const Planned& planned) {
  std::vector<PlannedPass> passes;
  passes.push_back({planned.settings, {}, {}});
  for (const std::string& profile : context.planned_profiles) {
    if (profile == planned.pass().profile) continue;
    PlanSettings settings = context.plan_settings(profile);
    if (is_pass_possible(planned.samples().table, settings)) passes.push_back({std::move(settings), {}, {}});
  }
  return passes;
}

// Collective: adds shapes to the step. Later passes of the step must use the step's shapes, so this function
// plans them, too. All ranks choose the same shapes from the needs of all ranks.
void add_shapes(const StepContext& context, Planned& planned, GuardedWork& work) {
  const Mesh& mesh = context.mesh;
  const LengthTable& table = planned.samples().table;
  const DpRank here{mesh.here().dp};
  std::vector<PlannedPass> passes;
  work.run_on_replicated_data([&] { passes = passes_of(context, planned); });
  work([&] { passes.front().needed = needs_of(table, here, planned.plan.micro_batches, planned.settings); });
  work.agree(mesh.world());
  for (PlannedPass& pass : std::span(passes).subspan(1)) {
    const StepProblem problem{table, pass.settings, planned.gathered.index, planned.samples().trees};
    pass.settings = apply_strategy_choice(pass.settings, decide_strategy(context, problem, work));
    pass.assignment = assign_samples(context, problem, work);
    const std::array own{here};
    RankPeers peers(mesh.along(Axis::dp), work);
    const StepPlan plan = plan_dp_ranks(problem, pass.assignment, own, peers);
    work([&] { pass.needed = needs_of(table, here, plan.ranks.front().micro_batches, pass.settings); });
  }
  std::vector<Need> mine;
  work([&] {
    const GridPoint place = mesh.here();
    if (place.tp != 0 || place.cp != 0 || place.pp != 0) return;
    for (std::size_t p = 0; p < passes.size(); ++p)
      for (const PackedShape& shape : passes[p].needed) mine.push_back({static_cast<std::int64_t>(p), shape});
  });
  const auto all = all_gather_lists<Need>(mesh.world(), mine, work.error(), "shapes of micro-batches");
  work([&] {
    Shapes shapes = *planned.shapes;
    const Shapes added = shapes_to_add(group_by_pass(passes, all.values), shapes);
    if (added.empty()) return;
    shapes.insert(shapes.end(), added.begin(), added.end());
    planned.shapes = std::make_shared<const Shapes>(std::move(shapes));
  });
}

}  // namespace

Planned with_shapes(Planned planned, const ChosenShapes& of_step, const ChosenShapes& so_far,
                    GuardedWork& work) {
  planned.shapes = of_step;
  if (!planned.settings.micro_batch.shapes) return planned;
  if (!planned.shapes) planned.shapes = so_far;
  work([&] {
    for (MicroBatchPlan& plan : planned.plan.micro_batches) {
      const PackedShape needed = needed_shape(planned.samples().table, plan, planned.settings);
      plan.shape = smallest_fitting_shape(needed, *planned.shapes, planned.settings);
    }
  });
  return planned;
}

Planned choose_shapes(const StepContext& context, Planned planned, const ChosenShapes& so_far,
                      GuardedWork& work) {
  if (!so_far) return planned;
  planned.shapes = so_far;
  const bool is_full = std::ssize(*so_far) >= *planned.settings.micro_batch.shapes;
  if (!is_full && may_add_shapes(planned.gathered.index)) add_shapes(context, planned, work);
  const ChosenShapes chosen = planned.shapes;
  planned = with_shapes(std::move(planned), chosen, so_far, work);
  planned.gathered.pass.seconds.plan += planned.gathered.pass.stopwatch.lap();
  return planned;
}

}  // namespace evenkeel
