#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// Parses a number of bytes such as "8GiB": digits, followed by KiB, MiB, GiB, TiB or no unit. Returns
/// nullopt for any other string, for 0, and for more than 2^50 bytes.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text) noexcept;

/// Formats a number of bytes with the largest unit that divides it.
[[nodiscard]] std::string format_with_unit(std::int64_t bytes);

/// Parses a number of tokens such as "32k": digits, followed by k or K for 1024, or M for 1024 * 1024.
/// Returns nullopt for any other string, and the maximum of std::int64_t if the number does not fit.
[[nodiscard]] std::optional<std::int64_t> parse_tokens(std::string_view text) noexcept;

}  // namespace evenkeel
