#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "page/run_picture.hpp"

namespace evenkeel {

/// A possible improvement to a run, and the setting that may achieve it. Advice reports recorded figures; it
/// does not predict gains.
struct Advice {
  /// Fraction of the step that the problem affects, from 0 to 1. Advice is sorted by this value.
  double share = 0;
  std::string what;    ///< what was observed, with figures
  std::string why;     ///< why it happens, as shown to the user
  std::string action;  ///< the setting to try

  friend bool operator==(const Advice&, const Advice&) = default;
};

/// Inputs to advice that are not part of RunPicture.
struct RunCircumstances {
  std::optional<std::int64_t> prefetch;  ///< value of exchange.prefetch; nullopt for a plan
  double seconds = 0;                    ///< wall-clock time of the run
};

/// Returns advice in descending order of `share`; empty if no figure reaches its threshold. Pure.
[[nodiscard]] std::vector<Advice> advice_on(const RunPicture& run,
                                            const RunCircumstances& circumstances = {});

}  // namespace evenkeel
