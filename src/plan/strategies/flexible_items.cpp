#include "plan/strategies/flexible_items.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "balance/partition/item_order.hpp"

namespace evenkeel {
namespace {

std::vector<UnitId> by_falling_cost(const PackUnits& units, IdView<UnitId> chosen) {
  std::vector<Cost> costs;
  costs.reserve(chosen.size());
  for (const UnitId at : chosen) costs.push_back(units.costs()[at.index()]);
  std::vector<UnitId> order;
  order.reserve(chosen.size());
  for (const CostedItem& unit : descending_items_smaller_first(costs)) order.push_back(chosen[unit.item]);
  return order;
}

}  // namespace

FlexibleItems::FlexibleItems(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> chosen)
    : order_(by_falling_cost(units, chosen)) {
  work_.reserve(order_.size());
  lengths_.reserve(order_.size());
  for (const UnitId unit : order_) add(units, unit, settings.balance);
  for (int size = 0; size <= settings.largest_group(); ++size)
    alignments_.push_back(settings.alignment(std::max(1, size)));
  problem_.items = work_;
  problem_.lengths = lengths_;
  if (!units.items().counts.empty()) problem_.counts = counts_;
  if (units.shared()) problem_.offsets = offsets_;
  problem_.alignments = alignments_;
  problem_.ranks = settings.dp;
  problem_.max_size = settings.largest_group();
  problem_.limits = units.limits();
  problem_.communication = settings.communication_cost();
  problem_.speeds = settings.balance.speeds;
  if (settings.balance.measured) keep_countable(problem_.communication);
}

// What was measured may be anything. Its sums stay within 64 bits, so that it is no reason to refuse a
// step.
void FlexibleItems::keep_countable(CommunicationCost& cost) const {
  Cost most = Cost{1} << 60;
  if (!problem_.speeds.empty()) {
    const auto [slowest, fastest] = std::ranges::minmax(problem_.speeds);
    most /= fastest / slowest + (fastest % slowest != 0 ? 1 : 0);
  }
  std::int64_t rows = 1;
  for (const ContextWork& work : work_) rows += work.rows;
  const Cost most_of_a_hop = most / problem_.max_size / rows;
  cost.inside_node = std::min(cost.inside_node, most_of_a_hop);
  cost.between_nodes = std::min(cost.between_nodes, most_of_a_hop);
  cost.overhead = std::min(cost.overhead, most / problem_.max_size / (std::ssize(work_) + 1));
}

void FlexibleItems::add(const PackUnits& units, UnitId at, const BalanceSettings& balance) {
  const std::int64_t rows = units.rows()[at.index()];
  const Cost cost = units.costs()[at.index()];
  // A field does not say which part of the work is attention.
  work_.push_back({rows, cost, balance.cost_field ? 0 : cost - balance.cost.linear * rows});
  counts_.push_back(units.items().count_of(at.value()));
  if (!units.shared()) {  // one sequence each, which needs no counts and offsets
    lengths_.push_back(rows);
    return;
  }
  const PackUnit unit = units[at];
  if (unit.tree == nullptr) {
    lengths_.push_back(unit.rows);
  } else {
    for (const TreeSegment& segment : unit.tree->segments()) lengths_.push_back(segment.rows.size());
  }
  offsets_.push_back(std::ssize(lengths_));
}

}  // namespace evenkeel
