#pragma once

#include <variant>

#include "evenkeel/plan/settings.hpp"

namespace evenkeel::testing_support {

/// Returns the parameters of the settings' strategy, which is replaced by a default one of type `Parameters`
/// if it has another type.
template <class Parameters>
Parameters& use(PlanSettings& settings) {
  if (!std::holds_alternative<Parameters>(settings.strategy)) settings.strategy = Parameters{};
  return std::get<Parameters>(settings.strategy);
}

/// Groups of different sizes: in waves if ranks are synchronized, otherwise in a tree.
inline StrategySettings context_groups(int max_size, bool ranks_meet) {
  if (ranks_meet) return ContextWavesSettings{max_size};
  return ContextTreeSettings{max_size};
}

}  // namespace evenkeel::testing_support
