#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// A value that programs write, and that JSON does not have or a reader cannot hold.
struct JsonFault {
  std::string field;        ///< the key of the outermost object; empty outside of any
  std::string what;         ///< such as "holds NaN"
  std::int64_t column = 0;  ///< characters from the start of the line, counted from 1
  std::string why;          ///< such as "JSON does not have NaN and Infinity"
  std::string hint;
};

/// The first of these in a line that a parser has refused, and none if it was refused for another reason: a
/// word for a number that is not finite (NaN, Infinity, short forms, any case and sign), a number beyond 64
/// bits, half of a surrogate pair, an escape or a control character that a text cannot have, bytes that are
/// not UTF-8, and a byte order mark. O(bytes).
[[nodiscard]] std::optional<JsonFault> find_json_fault(std::string_view line);

/// Characters of a text in UTF-8, as columns are counted. O(bytes).
[[nodiscard]] std::int64_t columns_in(std::string_view text);

}  // namespace evenkeel
