#pragma once

#include <variant>

#include "evenkeel/plan/settings.hpp"

namespace evenkeel::testing_support {

/// Returns the parameters of the settings' strategy. If the strategy has another type, replaces it by a
/// default-constructed `Parameters`.
template <class Parameters>
Parameters& use(PlanSettings& settings) {
  if (!std::holds_alternative<Parameters>(settings.strategy)) settings.strategy = Parameters{};
  return std::get<Parameters>(settings.strategy);
}

/// Returns a strategy with groups of different sizes: in waves if ranks are synchronized, otherwise in a
/// tree.
inline StrategySettings context_groups(int max_size, bool ranks_meet) {
  if (ranks_meet) return ContextWavesSettings{max_size};
  return ContextTreeSettings{max_size};
}

}  // namespace evenkeel::testing_support
