#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "evenkeel/base/error.hpp"

namespace evenkeel::stream {

/// What a JSON value says if it is an integer of 64 bits with its sign. None for all else: nlohmann::json
/// would make integers of `2.5` and `true`, and `1e67` is none that there is.
[[nodiscard]] inline std::optional<std::int64_t> integer_of(const nlohmann::json& value) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > most;
  if (!value.is_number_integer() || is_too_large) return std::nullopt;
  return value.get<std::int64_t>();
}

/// The same where there must be one. Throws InputError for `what` otherwise.
[[nodiscard]] inline std::int64_t require_integer(const nlohmann::json& value, const char* what) {
  if (const std::optional<std::int64_t> integer = integer_of(value)) return *integer;
  throw InputError(what, value.dump() + " is not a 64-bit integer");
}

}  // namespace evenkeel::stream
