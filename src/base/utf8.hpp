#pragma once

#include <cstddef>
#include <string_view>

namespace evenkeel {

/// Bytes of the UTF-8 sequence at the start of a text, 0 when there is none: overlong forms, surrogates and
/// what is above U+10FFFF are none (RFC 3629, section 4). Precondition: the text is not empty.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text) noexcept;

/// Bytes at the start of a text that are UTF-8: all of it where the text is. O(bytes).
[[nodiscard]] std::size_t utf8_prefix(std::string_view text) noexcept;

}  // namespace evenkeel
