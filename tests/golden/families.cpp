#include "golden/families.hpp"

#include <algorithm>
#include <cmath>

#include "evenkeel/base/error.hpp"

namespace evenkeel::golden {

const std::map<std::string, Family>& families() {
  static const std::map<std::string, Family> all = [] {
    std::map<std::string, Family> merged = balance_families();
    merged.merge(pack_families());
    merged.merge(plan_families());
    merged.merge(prefix_families());
    return merged;
  }();
  return all;
}

json run_case(Family family, const json& input) {
  try {
    return family(input);
  } catch (const Error& error) {
    return {{"error", {{"type", "evenkeel::Error"}, {"message", error.what()}}}};
  }
}

bool matches(const json& expected, const json& actual) {
  if (expected.is_object()) {
    if (expected.size() == 1 && expected.contains("error")) return true;
    return actual.is_object() && std::ranges::all_of(expected.items(), [&](const auto& entry) {
             if (entry.key() == "error") return true;
             return actual.contains(entry.key()) && matches(entry.value(), actual.at(entry.key()));
           });
  }
  if (expected.is_array()) {
    return actual.is_array() && std::ranges::equal(expected, actual, matches);
  }
  if (expected.is_boolean() && actual.is_number())
    return (expected.get<bool>() ? 1 : 0) == actual.get<double>();
  if (expected.is_number() && actual.is_boolean()) return matches(actual, expected);
  if (expected.is_number_float() || (actual.is_number_float() && expected.is_number())) {
    const double want = expected.get<double>();
    return actual.is_number() &&
           std::abs(want - actual.get<double>()) <= 1e-5 * std::max(1.0, std::abs(want));
  }
  return expected == actual;
}

}  // namespace evenkeel::golden
