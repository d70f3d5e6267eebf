// What StepMaker does with micro_batch.shapes.
#include <algorithm>
#include <array>
#include <utility>

#include "exchange/gather/rank_peers.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/micro_batches/shape_choice.hpp"
#include "service/step/step_maker.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

using Shapes = std::vector<PackedShape>;

/// What a micro-batch of one of the passes needs, as it travels.
struct Need {
  std::int64_t pass = 0;
  PackedShape shape;
};

/// A pass over the step's samples that is planned to see what it needs.
struct PlannedPass {
  PlanSettings settings;
  StepAssignment assignment;
  std::vector<PackedShape> needed;  // of this rank's DP rank
};

std::vector<PackedShape> needs_of(const LengthTable& table, std::span<const MicroBatchPlan> plans,
                                  const PlanSettings& settings) {
  std::vector<PackedShape> needed;
  for (const MicroBatchPlan& plan : plans) needed.push_back(needed_shape(table, plan, settings));
  return needed;
}

std::vector<PassNeeds> by_pass(std::span<const PlannedPass> passes, std::span<const Need> needs) {
  std::vector<PassNeeds> of_passes;
  for (const PlannedPass& pass : passes) of_passes.push_back({&pass.settings, {}});
  for (const Need& need : needs) of_passes[static_cast<std::size_t>(need.pass)].needed.push_back(need.shape);
  return of_passes;
}

}  // namespace

// On replicated data. A state of another number of shapes, or other caps, has nothing to go on with.
void StepMaker::prepare_shapes(const ServiceState& from) {
  std::vector<PlanSettings> passes{plan_settings({})};
  for (const auto& entry : config_.profiles) {
    passes.push_back(plan_settings(entry.first));
    if (std::ranges::find(passes.begin() + 1, passes.end() - 1, passes.back()) == passes.end() - 1)
      planned_profiles_.push_back(entry.first);
  }
  Shapes shapes = first_shapes(passes);
  if (shapes.empty()) return;
  const bool goes_on = std::ssize(from.shapes) <= *passes.front().micro_batch.shapes &&
                       std::ranges::all_of(shapes, [&](const PackedShape& shape) {
                         return std::ranges::find(from.shapes, shape) != from.shapes.end();
                       });
  shapes_ = std::make_shared<const Shapes>(goes_on ? from.shapes : std::move(shapes));
}

// Collective where shapes may be added.
void StepMaker::choose_shapes(Making& making) const {
  making.record->shapes = shapes_;
  if (!shapes_) return;
  if (std::ssize(*shapes_) < *making.settings.micro_batch.shapes && may_add_shapes(making.step.index))
    add_shapes(making);
  hand_out_shapes(making);
  making.step.seconds.plan += making.stopwatch.lap();
}

// Collective. Later passes of the step have their shapes from it, so that they are planned here, too: all
// ranks choose from what they all need.
void StepMaker::add_shapes(Making& making) const {
  StepRecord& record = *making.record;
  GuardedWork& work = making.work;
  std::vector<PlannedPass> passes;
  work.on_replicated_data([&] {
    passes.push_back({making.settings, {}, {}});
    for (const std::string& profile : planned_profiles_)
      if (profile != making.step.profile) passes.push_back({plan_settings(profile), {}, {}});
  });
  work([&] { passes.front().needed = needs_of(record.table(), record.plan.micro_batches, making.settings); });
  work.agree(mesh_.everyone());
  for (PlannedPass& pass : std::span(passes).subspan(1)) {
    const StepProblem problem{record.table(), pass.settings, making.step.index, record.samples->trees};
    assign(problem, pass.assignment, work);
    if (!mesh_.has_place()) continue;
    const std::array own{DpRank{mesh_.here().dp}};
    RankPeers peers(mesh_.along(Axis::dp), work);
    const StepPlan planned = plan_dp_ranks(problem, pass.assignment, own, peers);
    work([&] { pass.needed = needs_of(record.table(), planned.ranks.front().micro_batches, pass.settings); });
  }
  std::vector<Need> mine;
  work([&] {
    const GridPoint here = mesh_.here();
    if (!mesh_.has_place() || here.tp != 0 || here.cp != 0 || here.pp != 0) return;
    for (std::size_t p = 0; p < passes.size(); ++p)
      for (const PackedShape& shape : passes[p].needed) mine.push_back({static_cast<std::int64_t>(p), shape});
  });
  const auto all = all_gather_lists<Need>(mesh_.everyone(), mine, work.error(), "shapes of micro-batches");
  work([&] {
    Shapes shapes = *shapes_;
    const Shapes added = shapes_to_add(by_pass(passes, all.values), shapes);
    if (added.empty()) return;
    shapes.insert(shapes.end(), added.begin(), added.end());
    record.shapes = std::make_shared<const Shapes>(std::move(shapes));
  });
}

// Local.
void StepMaker::hand_out_shapes(Making& making) const {
  StepRecord& record = *making.record;
  if (!making.settings.micro_batch.shapes) return;
  if (!record.shapes) record.shapes = shapes_;
  making.work([&] {
    for (MicroBatchPlan& plan : record.plan.micro_batches) {
      const PackedShape needed = needed_shape(record.table(), plan, making.settings);
      plan.shape = smallest_shape(needed, *record.shapes, making.settings);
    }
  });
}

}  // namespace evenkeel
