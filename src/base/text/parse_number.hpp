#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace evenkeel {

/// Parses a string that consists of one number: digits with an optional minus sign and, for floating point,
/// the other forms that std::from_chars accepts. Returns nullopt for any other string, such as one with
/// spaces or a plus sign, and if `Number` cannot represent the number.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_as(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && after == end ? std::optional(number) : std::nullopt;
}

/// Same as parse_as(), but for an integer in hexadecimal digits.
template <std::integral Number>
[[nodiscard]] std::optional<Number> parse_hexadecimal_as(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number, 16);
  return error == std::errc{} && after == end ? std::optional(number) : std::nullopt;
}

}  // namespace evenkeel
