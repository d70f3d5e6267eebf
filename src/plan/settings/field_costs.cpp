#include "plan/settings/field_costs.hpp"

#include <algorithm>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/assign/dp_assignment.hpp"

namespace evenkeel {

std::span<const Cost> field_costs_of(const LengthTable& table, const std::string& field) {
  const auto found = std::ranges::find(table.field_sums(), field, &FieldSums::field);
  if (found != table.field_sums().end()) return found->sums;
  if (table.size() == 0) return {};
  throw InputError("field '" + field + "'", "is used by balance.cost, but the samples do not have it",
                   "Provide it with the samples of the step, or choose another cost");
}

std::vector<Cost> encoder_costs_of(const LengthTable& table, const EncoderCost& encoder) {
  const std::span<const std::int64_t> rows = rows_of(table.row_counts(), encoder.field);
  if (std::ssize(rows) != table.size()) {
    throw InputError("field '" + encoder.field + "'",
                     "is used by balance.cost: encoder, but the samples do not have it as a field of kind "
                     "rows",
                     "Provide it as a field of kind rows, or leave encoder out");
  }
  std::vector<Cost> costs;
  costs.reserve(rows.size());
  for (const std::int64_t count : rows) costs.push_back(encoder.cost(count));
  return costs;
}

EncoderWork encoder_work_of(const LengthTable& table, const PlanSettings& settings,
                            const StepAssignment& assignment) {
  EVENKEEL_PRECONDITION(cheap, settings.balance.encoder.has_value());
  EncoderWork work;
  work.in_source_order = group_sums(contiguous_runs(table.size(), settings.dp),
                                    encoder_costs_of(table, *settings.balance.encoder));
  work.assigned.assign(static_cast<std::size_t>(settings.dp), 0);
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::size_t r = 0; r < work.assigned.size(); ++r) {
      for (const UnitId unit : mini_batch.units[static_cast<std::int64_t>(r)])
        work.assigned[r] += assignment.units.encoder_costs()[unit.index()];
    }
  }
  return work;
}

EncoderWork encoder_work_of(const LengthTable& table, const PlanSettings& settings, const StepPlan& plan) {
  EVENKEEL_PRECONDITION(cheap, settings.balance.encoder.has_value());
  const std::vector<Cost> costs = encoder_costs_of(table, *settings.balance.encoder);
  EncoderWork work;
  work.in_source_order = group_sums(contiguous_runs(table.size(), settings.dp), costs);
  for (const DpRankPlan& rank : plan.ranks) {
    Cost& sum = work.assigned.emplace_back(0);
    for (const MicroBatchPlan& m : rank.micro_batches)
      for (const EntryId entry : m.entries) sum += costs[entry.index()];
  }
  return work;
}

}  // namespace evenkeel
