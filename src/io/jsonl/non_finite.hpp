#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// A word that stands for a number in what some programs write, but not in JSON: NaN, Infinity, -Infinity.
struct NonFinite {
  std::string field;        ///< the outermost object's key that it stands under; empty outside of any
  std::string word;         ///< as it is written
  std::int64_t column = 0;  ///< characters from the start of the line, counted from 1
};

/// The first such word outside of texts, in any case and with any sign, short forms (nan, inf) included; none
/// in valid JSON. O(bytes); for lines that a parser has refused.
[[nodiscard]] std::optional<NonFinite> find_non_finite(std::string_view line);

}  // namespace evenkeel
