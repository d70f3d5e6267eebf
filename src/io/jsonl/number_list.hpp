#pragma once

#include <cstdint>
#include <optional>

namespace evenkeel {

/// A list of numbers in a JSON text, of which nothing was read but how it is written.
struct NumberList {
  const char* end = nullptr;  ///< behind its bracket
  std::int64_t count = 0;
  bool has_reals = false;      ///< one is written with a point or an exponent
  bool has_negatives = false;  ///< one begins with a minus
  bool has_wide = false;       ///< one has 8 digits or more before its point, so float32 may have to round it
};

/// Bytes behind a text that must be readable. One of the first 16 must be none that a list goes on with, such
/// as 0.
inline constexpr std::int64_t number_list_padding = 80;

/// The list whose opening bracket was before `begin`, if it is one of plain numbers: valid JSON, integers of
/// at most 15 digits, reals whose exponents are negative, commas with at most one space behind, and no other
/// space. So any integer fits in int64, and any real in the range of float32. None for every other list,
/// which may be good or bad: it takes a parser to tell. Reads a block at a time with the instructions that
/// the processor has for it: several times as fast as parsing. O(bytes of the list).
[[nodiscard]] std::optional<NumberList> scan_number_list(const char* begin) noexcept;

}  // namespace evenkeel
