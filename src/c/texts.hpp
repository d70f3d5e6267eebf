#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel::c {

/// Returns a null-terminated copy of the text, which the caller frees with evenkeel_buffer_free. `bytes` may
/// be null.
void return_text(const std::string& text, char** buffer, std::int64_t* bytes);

/// Returns the texts of a C array. Throws WrongArgument if one is NULL; `name` is the name of the argument.
[[nodiscard]] std::vector<std::string> texts_of(const char* const* texts, std::int64_t count,
                                                const char* name);

/// Returns the text, or an empty text for NULL.
[[nodiscard]] inline const char* text_or_empty(const char* text) noexcept {
  return text == nullptr ? "" : text;
}

}  // namespace evenkeel::c
