#include "plan/picked_units.hpp"

namespace evenkeel {

std::vector<std::int64_t> picked(std::span<const std::int64_t> of_all, std::span<const Item> units) {
  std::vector<std::int64_t> values;
  values.reserve(units.size());
  for (const Item unit : units) values.push_back(of_all[static_cast<std::size_t>(unit)]);
  return values;
}

PickedUnits::PickedUnits(const PackUnits& all, std::span<const Item> units)
    : costs(picked(all.costs(), units)), aligned_rows(picked(all.items().sizes, units)) {
  if (!all.items().counts.empty()) samples = picked(all.items().counts, units);
}

}  // namespace evenkeel
