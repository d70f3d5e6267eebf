#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace evenkeel::golden {

using nlohmann::json;

/// Runs Evenkeel on the input of one golden case and returns its result, with the keys of the family's
/// expected values. A case that must fail throws evenkeel::Error; run_case converts that into {"error": ...}.
using Family = json (*)(const json& input);

/// Returns the families by name. One source file per module defines its families.
std::map<std::string, Family> balance_families();
std::map<std::string, Family> pack_families();
std::map<std::string, Family> plan_families();
std::map<std::string, Family> prefix_families();

/// Returns all families that this build includes.
const std::map<std::string, Family>& families();

/// Returns family(input), or {"error": {"type", "message"}} if Evenkeel throws.
json run_case(Family family, const json& input);

/// Compares according to the rule of the vectors: integers are equal, floats are equal to 1e-5 relative to
/// max(1, |expected|), the keys of the expected objects exist; any error matches an expected error.
bool matches(const json& expected, const json& actual);

}  // namespace evenkeel::golden
