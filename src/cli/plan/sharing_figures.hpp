#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/units/pack_units.hpp"

namespace evenkeel::cli {

/// "tokens repeated by splits: ...": what groups above a limit repeat, and which limit that is. Empty where
/// samples share nothing.
[[nodiscard]] std::string sharing_line(const PackUnits& units);

/// What a plan comes to in tokens and attention scores, with sharing and without, and what splits repeat: the
/// figures of a run's report.
[[nodiscard]] nlohmann::json sharing_json(const PackUnits& units);

}  // namespace evenkeel::cli
