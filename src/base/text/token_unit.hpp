#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace evenkeel {

/// The number that people write as "32k": digits and a unit, k or K for 1024 tokens as in a context of 32k,
/// or M for 1024 * 1024. Nothing for any other text; the largest number where 64 bits do not hold it.
[[nodiscard]] std::optional<std::int64_t> tokens_with_unit(std::string_view text) noexcept;

}  // namespace evenkeel
