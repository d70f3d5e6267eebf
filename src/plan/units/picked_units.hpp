#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// What balancing and capping look at of some units: item i is units[i].
struct PickedUnits {
  std::vector<Cost> costs;
  std::vector<std::int64_t> aligned_rows;
  std::vector<std::int64_t> samples;  ///< empty: one each

  PickedUnits(const PackUnits& all, IdView<UnitId> units);
  [[nodiscard]] BinItems items() const { return {aligned_rows, samples}; }
};

/// Of these units: no packing has fewer micro-batches under any one of the limits.
[[nodiscard]] std::int64_t fewest_micro_batches(const PackUnits& all, IdView<UnitId> units);
/// How many micro-batches they need, as they can be packed and at least.
[[nodiscard]] GroupCount count_micro_batches(const PackUnits& all, IdView<UnitId> units);

/// The values of a list that belong to some units.
[[nodiscard]] std::vector<std::int64_t> picked(std::span<const std::int64_t> of_all, IdView<UnitId> units);

/// What balancing picked of some units: those at the places that it names.
[[nodiscard]] std::vector<UnitId> picked(IdView<UnitId> units, std::span<const Item> places);

}  // namespace evenkeel
