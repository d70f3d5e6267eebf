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

/// A parsed JSON object, together with the memory to which its values refer.
class JsonText {
 public:
  /// Throws std::bad_alloc if memory runs out.
  explicit JsonText(std::string_view text);

  /// Returns the object, or nullopt if the text is not a JSON object. The object is valid as long as this
  /// JsonText.
  [[nodiscard]] const std::optional<simdjson::dom::object>& object() const noexcept { return object_; }

 private:
  simdjson::padded_string padded_;
  simdjson::dom::parser parser_;
  std::optional<simdjson::dom::object> object_;
};

/// Calls `use` with the value and the count of each [value, count] pair in a list, where count >= 0. Stops
/// and returns false if `value` is not a list or an element is not such a pair.
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

/// Explains why the value is not a list of runs, [[number, count], ...]: "is 3; it must be ...", or, with the
/// first invalid run, "has [3,-1] at [0]; every entry must be ...".
[[nodiscard]] std::string describe_invalid_runs(const simdjson::dom::element& value);

/// Returns the sum, or the largest 64-bit integer if the sum would overflow.
[[nodiscard]] inline std::int64_t saturating_add(std::int64_t sum, std::int64_t count) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return count > most - sum ? most : sum + count;
}

/// A parsed line. The object's values are valid only during the call to `visit` of for_each_json_line().
struct JsonLine {
  const LineNames& names;
  LineRef ref;
  simdjson::dom::object object;

  /// Returns "PATH:LINE", with lines counted from 1.
  [[nodiscard]] std::string where() const;
  /// Throws InputError at where().
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;
};

/// Parses these lines in order and passes each to `visit`. Lines that are close together in a file are read
/// with one call. Throws InputError for a line that is not a JSON object, and IoError if reading fails.
void for_each_json_line(const LineFiles& files, std::span<const LineRef> lines,
                        const std::function<void(const JsonLine&)>& visit);

/// Returns the value as JSON, truncated, for use in errors.
[[nodiscard]] std::string text_of(const simdjson::dom::element& value);

/// Returns the number of values in a list.
[[nodiscard]] std::int64_t count_of(const simdjson::dom::array& list);

/// A common fault in JSON that programs write: a value that JSON does not allow or that readers cannot
/// represent.
struct JsonFault {
  std::string field;  ///< key of the value in the outermost object; empty if the fault is not in a value
  std::string what;   ///< what is wrong, for example "holds NaN"
  std::int64_t column = 0;  ///< 1-based character column in the line at which the fault begins
  std::string why;          ///< rule that is violated, for example "JSON does not have NaN or Infinity"
  std::string hint;
};

/// Returns the first common fault in a line that a parser rejected, or nullopt if the line has no fault of
/// these kinds: words for numbers that are not finite (NaN, Infinity and their short forms, in upper or lower
/// case, with any sign) and numbers beyond 64 bits; in strings, halves of surrogate pairs, invalid escapes,
/// control characters and bytes that are not UTF-8; outside of strings, byte order marks. O(bytes).
[[nodiscard]] std::optional<JsonFault> find_json_fault(std::string_view line);

/// Returns the number of characters of a UTF-8 text. Columns in errors are counted in characters. O(bytes).
[[nodiscard]] std::int64_t count_characters(std::string_view text);

}  // namespace evenkeel
