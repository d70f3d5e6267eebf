#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace evenkeel {

// Functions for base64 with padding (RFC 4648, section 4), the encoding of bytes in JSON.

/// Returns the decoded size in bytes, or nullopt if the text is not valid base64. O(text).
[[nodiscard]] std::optional<std::size_t> base64_decoded_size(std::string_view text) noexcept;
/// Decodes the text into `out`. Preconditions: the text is valid base64, and `out` has the decoded size.
void decode_base64(std::string_view text, std::span<std::byte> out) noexcept;
[[nodiscard]] std::string encode_base64(std::span<const std::byte> bytes);

}  // namespace evenkeel
