#pragma once

#include <cstdint>
#include <string>

namespace evenkeel {

/// `prefix` and `number` with at least `digits` digits, such as step-000012.
[[nodiscard]] inline std::string numbered_name(const char* prefix, std::int64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return prefix + text;
}

}  // namespace evenkeel
