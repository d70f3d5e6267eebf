#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel {

/// What a step is planned from. Replicated: every rank holds an equal one, so that what is worked out from it
/// alone is equal too. It refers to its parts, which must outlive it.
struct StepProblem {
  const LengthTable& table;
  const PlanSettings& settings;
  std::int64_t step = 0;  ///< names what is drawn for it
  /// The groups of samples that share prefixes, every entry in one of them; asked for with
  /// PrefixSharing::trees only, since lengths alone cannot tell.
  std::span<const SharedGroup> trees = {};
};

}  // namespace evenkeel
