#include "plan/units/picked_units.hpp"

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

}  // namespace evenkeel
