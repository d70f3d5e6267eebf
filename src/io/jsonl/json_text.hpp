#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>

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

}  // namespace evenkeel
