#pragma once

#include <cstdint>
#include <optional>

namespace evenkeel {

/// Properties of a list of numbers in a JSON text, determined by its syntax alone.
struct NumberList {
  const char* end = nullptr;  ///< end of the list: the byte after its closing bracket
  std::int64_t count = 0;
  bool has_reals = false;      ///< whether a number has a point or an exponent
  bool has_negatives = false;  ///< whether a number has a minus sign
  /// Whether a number has at least 8 digits before its point, so float32 may round it.
  bool has_wide = false;
};

/// Number of bytes that must be readable after the text that scan_number_list() scans. At least one of the
/// first 16 of them must be a byte that cannot continue a list, such as 0.
inline constexpr std::int64_t number_list_padding = 80;

/// Scans a list, from the byte after its opening bracket, if it is a list of plain numbers: valid JSON, at
/// most 15 digits before a number's point, real numbers without exponents or with negative ones (`e-`, not
/// `E-`), and at most one space after the opening bracket and after each comma, but not elsewhere. All
/// integers then fit in int64, and all real numbers are within the range of float32. Returns nullopt for any
/// other list, valid or not; such a list needs a parser. Scans blocks, with vector instructions on x86,
/// several times as fast as parsing. O(bytes of the list).
[[nodiscard]] std::optional<NumberList> scan_number_list(const char* begin) noexcept;

}  // namespace evenkeel
