#pragma once

#include <simdjson.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/files/input_file.hpp"
#include "io/files/line_files.hpp"
#include "io/files/lines.hpp"

namespace evenkeel {

/// A JSON object in a text, with what its values look at.
class JsonText {
 public:
  /// Throws std::bad_alloc where memory runs out.
  explicit JsonText(std::string_view text);

  /// None where the text is no JSON object. Valid as long as this is.
  [[nodiscard]] const std::optional<simdjson::dom::object>& object() const noexcept { return object_; }

 private:
  simdjson::padded_string padded_;
  simdjson::dom::parser parser_;
  std::optional<simdjson::dom::object> object_;
};

/// Calls `use` with the value and the count, 0 or more, of each [value, count] of a list. Returns whether the
/// list is made of such.
template <typename Use>
bool for_each_run(const simdjson::dom::element& value, Use use) {
  simdjson::dom::array runs;
  if (value.get(runs)) return false;
  for (const simdjson::dom::element run : runs) {
    simdjson::dom::array pair;
    std::int64_t count = 0;
    if (run.get(pair) || pair.size() != 2 || pair.at(1).get(count) || count < 0) return false;
    use(pair.at(0).value_unsafe(), count);
  }
  return true;
}

/// What counts add up to; the largest number where they are more.
[[nodiscard]] inline std::int64_t add_count(std::int64_t sum, std::int64_t count) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return count > most - sum ? most : sum + count;
}

/// A parsed line. The object's values are valid during the visit only.
struct JsonLine {
  const LineNames& names;
  LineRef ref;
  simdjson::dom::object object;

  /// "PATH:LINE", counted from 1.
  [[nodiscard]] std::string where() const;
  /// Throws InputError at where().
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;
};

/// Parses these lines one after the other and hands each to `visit`. Lines that stand close together in a
/// file are read together. Throws InputError for a line that is not a JSON object, and IoError.
void for_each_json_line(const LineFiles& files, std::span<const LineRef> lines,
                        const std::function<void(const JsonLine&)>& visit);

/// The value as JSON, cut short, for error messages.
[[nodiscard]] std::string text_of(const simdjson::dom::element& value);

/// The number of values in a list.
[[nodiscard]] std::int64_t count_of(const simdjson::dom::array& list);

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
