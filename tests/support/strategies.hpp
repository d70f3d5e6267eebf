#pragma once

#include <variant>

#include "evenkeel/plan/settings.hpp"

namespace evenkeel::testing_support {

/// The parameters of the settings' strategy, which becomes that of type `Parameters` if it is another one.
template <class Parameters>
Parameters& use(PlanSettings& settings) {
  if (!std::holds_alternative<Parameters>(settings.strategy)) settings.strategy = Parameters{};
  return std::get<Parameters>(settings.strategy);
}

/// Groups of their own sizes: in waves where ranks meet, else in a tree.
inline StrategySettings context_groups(int max_size, bool ranks_meet) {
  if (ranks_meet) return ContextWavesSettings{max_size};
  return ContextTreeSettings{max_size};
}

}  // namespace evenkeel::testing_support
