#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace evenkeel::golden {

using nlohmann::json;

/// Runs Evenkeel on one golden case's input and returns what it computes, with the keys of the family's
/// expected values. A case that must fail throws evenkeel::Error; run_case turns that into {"error": ...}.
using Family = json (*)(const json& input);

/// The families by name. Each room's families are defined in one source file.
std::map<std::string, Family> balance_families();
std::map<std::string, Family> pack_families();
std::map<std::string, Family> plan_families();
std::map<std::string, Family> prefix_families();

/// All families that this build knows.
const std::map<std::string, Family>& families();

/// family(input), or {"error": {"type", "message"}} when Evenkeel throws.
json run_case(Family family, const json& input);

/// The comparison rule of the vectors: integers equal, floats to 1e-5 relative to max(1, |expected|), keys of
/// the expected objects present; an expected error accepts anything.
bool matches(const json& expected, const json& actual);

}  // namespace evenkeel::golden
