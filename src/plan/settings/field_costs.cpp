#include "plan/settings/field_costs.hpp"

#include <algorithm>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

std::span<const Cost> field_costs_of(const LengthTable& table, const std::string& field) {
  const auto found = std::ranges::find(table.field_sums(), field, &FieldSums::field);
  if (found != table.field_sums().end()) return found->sums;
  if (table.size() == 0) return {};
  throw InputError("field '" + field + "'", "is the field of balance.cost, and samples do not have it",
                   "Bring it with the samples of the step, or name another cost");
}

}  // namespace evenkeel
