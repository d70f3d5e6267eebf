#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "page/run_picture.hpp"

namespace evenkeel {

/// Something that a run could have more of, and what may give it. All of it follows from figures: it says
/// what was counted, not what will be gained.
struct Advice {
  /// How much of a step it is about, from 0 to 1: what advice is sorted by.
  double share = 0;
  std::string what;  ///< what was seen, with its figures
  std::string why;   ///< where it comes from
  std::string then;  ///< what to try

  friend bool operator==(const Advice&, const Advice&) = default;
};

/// What advice needs to know of a run besides its steps.
struct RunCircumstances {
  std::optional<std::int64_t> prefetch;  ///< exchange.prefetch; unset: of a plan
  double seconds = 0;                    ///< wall clock
};

/// What to change, what weighs most first; nothing where there is nothing to gain. Pure.
[[nodiscard]] std::vector<Advice> advice_on(const RunPicture& run,
                                            const RunCircumstances& circumstances = {});

}  // namespace evenkeel
