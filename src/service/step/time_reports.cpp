#include "service/step/time_reports.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "mesh/fail_together.hpp"
#include "plan/strategies/strategy.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {

namespace {

/// Returns the configured communication costs of context-parallel groups; nullopt if all groups have the same
/// size.
std::optional<CommunicationSettings> group_communication(const PlanSettings& settings) {
  if (!strategy_of(settings).has_flexible_groups()) return std::nullopt;
  CommunicationSettings groups = settings.balance.communication;
  groups.ranks_per_node = settings.communication_cost().ranks_per_node;
  return groups;
}

}  // namespace

TimeReports::TimeReports(const Config& config, const GridPoint& mesh, const ServiceState& from) {
  const auto add_profile = [&](const std::string& name, const BalanceSettings& balance) {
    if (!balance.measured) return;
    const auto groups = group_communication(config.plan_settings(mesh, name));
    profiles_.emplace(name,
                      MeasuredProfile{*balance.measured, {balance.cost, balance.measured->window, groups}});
  };
  add_profile("", config.balance);
  for (const auto& [name, profile] : config.profiles) add_profile(name, profile.balance);
  for (auto& [name, measured] : profiles_) {
    measured.steps = from.next_step;
    const auto found = from.costs.find(name);
    if (found == from.costs.end()) continue;
    const SavedCost& cost = found->second;
    measured.model.restore_fit(
        {cost.overhead, cost.linear, cost.quadratic, cost.inside_node, cost.between_nodes},
        cost.observations);
  }
}

void TimeReports::add(std::string_view profile, const CostObservation& observation) {
  EVENKEEL_PRECONDITION(cheap, is_measured(profile), profile);
  MeasuredProfile& measured = profiles_.find(profile)->second;
  const std::lock_guard lock(mutex_);
  measured.reported.push_back(observation);
  if (std::ssize(measured.reported) > measured.settings.window) measured.reported.pop_front();
}

void TimeReports::begin_step(const Communicator& comm, std::string_view profile) {
  const auto found = profiles_.find(profile);
  if (found == profiles_.end()) return;
  MeasuredProfile& measured = found->second;
  const std::int64_t step = measured.steps++;
  if (step == 0 || step % measured.settings.every != 0) return;
  GuardedWork work;
  std::vector<CostObservation> mine;
  work([&] {
    const std::lock_guard lock(mutex_);
    mine.assign(measured.reported.begin(), measured.reported.end());
    measured.reported.clear();
  });
  const auto all = all_gather_lists<CostObservation>(comm, mine, work.error(), "times of micro-batches");
  if (all.values.empty()) return;
  // Replace the model only after all ranks have computed the new model successfully.
  std::optional<MeasuredCostModel> learnt;
  work([&] { learnt.emplace(measured.model).learn(all.values); });
  work.agree(comm);
  measured.model = *std::move(learnt);
}

const CostInUse& TimeReports::current_cost(std::string_view profile) const {
  EVENKEEL_PRECONDITION(cheap, is_measured(profile), profile);
  return profiles_.find(profile)->second.model.current_cost();
}

std::map<std::string, SavedCost> TimeReports::saved_costs() const {
  std::map<std::string, SavedCost> costs;
  for (const auto& [name, measured] : profiles_) {
    if (const auto cost = saved_cost(measured.model.current_cost())) costs.emplace(name, *cost);
  }
  return costs;
}

std::optional<SavedCost> saved_cost(const CostInUse& cost) {
  if (!cost.times) return std::nullopt;
  const TimeModel& times = *cost.times;
  return SavedCost{times.overhead,    times.linear,      times.quadratic,
                   cost.observations, times.inside_node, times.between_nodes};
}

}  // namespace evenkeel
