#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace evenkeel {

/// Base64 with padding (RFC 4648, section 4): what JSON has for bytes.

/// The bytes that the text stands for, in number; none where it is not base64. O(text).
[[nodiscard]] std::optional<std::size_t> bytes_in_base64(std::string_view text) noexcept;
/// Writes them to `out`. Preconditions: the text is base64, and `out` has as many bytes.
void decode_base64(std::string_view text, std::span<std::byte> out) noexcept;
[[nodiscard]] std::string encode_base64(std::span<const std::byte> bytes);

}  // namespace evenkeel
