#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// The number of bytes that people write as "8GiB": digits, and KiB, MiB, GiB or TiB, or no unit. Nothing for
/// any other text, for 0, and above 2^50.
[[nodiscard]] std::optional<std::int64_t> bytes_with_unit(std::string_view text) noexcept;

/// The same number as a text, with the largest unit that it is a multiple of.
[[nodiscard]] std::string text_with_unit(std::int64_t bytes);

/// The number that people write as "32k": digits and a unit, k or K for 1024 tokens as in a context of 32k,
/// or M for 1024 * 1024. Nothing for any other text; the largest number where 64 bits do not hold it.
[[nodiscard]] std::optional<std::int64_t> tokens_with_unit(std::string_view text) noexcept;

}  // namespace evenkeel
