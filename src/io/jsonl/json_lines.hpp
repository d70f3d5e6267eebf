#pragma once

#include <simdjson.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "io/files/input_file.hpp"
#include "io/files/line_files.hpp"
#include "io/files/lines.hpp"

namespace evenkeel {

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

}  // namespace evenkeel
