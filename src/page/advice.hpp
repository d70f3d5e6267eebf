#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "page/run_picture.hpp"

namespace evenkeel {

/// A possible improvement of a run, and the setting that may achieve it. Advice is derived from figures only:
/// it reports counts, and does not predict gains.
struct Advice {
  /// Affected share of a step, from 0 to 1. Advice is sorted by this share.
  double share = 0;
  std::string what;    ///< what was observed, with figures
  std::string why;     ///< the cause
  std::string action;  ///< the setting to try

  friend bool operator==(const Advice&, const Advice&) = default;
};

/// Properties of a run, in addition to its steps, that affect advice.
struct RunCircumstances {
  std::optional<std::int64_t> prefetch;  ///< exchange.prefetch; nullopt for a plan
  double seconds = 0;                    ///< wall-clock time
};

/// Returns advice, in descending order of `share`; empty if the run cannot be improved. Pure.
[[nodiscard]] std::vector<Advice> advice_on(const RunPicture& run,
                                            const RunCircumstances& circumstances = {});

}  // namespace evenkeel
