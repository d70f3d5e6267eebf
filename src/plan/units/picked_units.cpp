#include "plan/units/picked_units.hpp"

#include <algorithm>

namespace evenkeel {

std::vector<std::int64_t> picked(std::span<const std::int64_t> of_all, IdView<UnitId> units) {
  std::vector<std::int64_t> values;
  values.reserve(units.size());
  for (const UnitId unit : units) values.push_back(of_all[unit.index()]);
  return values;
}

std::vector<UnitId> picked(IdView<UnitId> units, std::span<const Item> places) {
  std::vector<UnitId> chosen;
  chosen.reserve(places.size());
  for (const Item place : places) chosen.push_back(units[place]);
  return chosen;
}

PickedUnits::PickedUnits(const PackUnits& all, IdView<UnitId> units)
    : costs(picked(all.costs(), units)), aligned_rows(picked(all.items().sizes, units)) {
  if (!all.items().counts.empty()) samples = picked(all.items().counts, units);
}

std::int64_t fewest_micro_batches(const PackUnits& all, IdView<UnitId> units) {
  const PickedUnits own(all, units);
  if (all.capped_rows().empty()) return min_bins_lower_bound(own.items(), all.limits());
  // The part of all limits that a unit counts for says nothing of what is possible at least.
  std::int64_t fewest = min_bins_lower_bound(own.aligned_rows, {.max_size = all.limits().max_size});
  for (const CappedRows& capped : all.capped_rows()) {
    const std::vector<std::int64_t> rows = picked(capped.of_units, units);
    fewest = std::max(fewest, min_bins_lower_bound(rows, {.max_size = capped.most}));
  }
  return fewest;
}

GroupCount count_micro_batches(const PackUnits& all, IdView<UnitId> units) {
  const PickedUnits own(all, units);
  GroupCount count = count_groups(own.costs, own.items(), all.limits());
  if (!all.capped_rows().empty())
    count.lower_bound = std::min(count.needed, fewest_micro_batches(all, units));
  return count;
}

}  // namespace evenkeel
