#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// Returns the length in bytes of the UTF-8 sequence at the start of `text`, or 0 if that sequence is
/// invalid. Overlong forms, surrogates and code points above U+10FFFF are invalid (RFC 3629, section 4).
/// Precondition: the text is not empty.
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text) noexcept;

/// Returns the length in bytes of the longest valid UTF-8 prefix of `text`. O(bytes).
[[nodiscard]] std::size_t utf8_prefix_length(std::string_view text) noexcept;

/// Makes external text (a key, a file name, a word of a configuration) safe to show on a terminal and in a
/// log. Line breaks and tabs become \n, \r and \t; other control characters (C0, DEL, and C1 in UTF-8) and
/// invalid bytes become \xNN. Everything else, including other scripts, is unchanged. O(length).
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace evenkeel
