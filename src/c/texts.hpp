#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel::c {

/// Stores a null-terminated copy of the text in *buffer, and its length in *bytes unless `bytes` is null. The
/// C caller frees the copy with evenkeel_buffer_free().
void copy_text_to_caller(const std::string& text, char** buffer, std::int64_t* bytes);

/// Returns the strings of a C array. Throws WrongArgument for an invalid `count`, for NULL if the array is
/// not empty, and for a string that is NULL. `name` is the name of the argument.
[[nodiscard]] std::vector<std::string> texts_of(const char* const* texts, std::int64_t count,
                                                const char* name);

/// Returns the text, or an empty string for NULL.
[[nodiscard]] inline const char* text_or_empty(const char* text) noexcept {
  return text == nullptr ? "" : text;
}

}  // namespace evenkeel::c
