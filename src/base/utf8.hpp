#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// Bytes of the UTF-8 sequence at the start of a text, 0 when there is none: overlong forms, surrogates and
/// what is above U+10FFFF are none (RFC 3629, section 4). Precondition: the text is not empty.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text) noexcept;

/// Bytes at the start of a text that are UTF-8: all of it where the text is. O(bytes).
[[nodiscard]] std::size_t utf8_prefix(std::string_view text) noexcept;

/// A text that came from outside (a key, a file name, a word of a configuration), safe to show on a terminal
/// and in a log: control characters (C0, DEL, and C1 as UTF-8 writes them) and bytes that are no UTF-8 become
/// \xNN, line ends and tabs \n, \r and \t. All else, other scripts included, stays as it is. O(length).
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace evenkeel
