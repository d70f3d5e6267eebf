#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/schedule.hpp"
#include "evenkeel/plan/settings.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// The units of a mini-batch as items that groups of ranks run, by falling cost: in the order in which a
/// schedule looks at them, so that these lie in memory one after the other. Local and deterministic.
/// Precondition: the strategy has groups of their own sizes.
class FlexibleItems {
 public:
  FlexibleItems(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> chosen);
  FlexibleItems(const FlexibleItems&) = delete;
  FlexibleItems& operator=(const FlexibleItems&) = delete;

  [[nodiscard]] const context::Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] UnitId unit(Item item) const noexcept { return order_[static_cast<std::size_t>(item)]; }

 private:
  void keep_countable(CommunicationCost& cost) const;
  void add(const PackUnits& units, UnitId at, const BalanceSettings& balance);

  std::vector<UnitId> order_;
  std::vector<ContextWork> work_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int64_t> alignments_;
  context::Problem problem_;
};

}  // namespace evenkeel
