#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace evenkeel {

/// Returns the number if the whole text is one that `Number` can represent: digits with an optional minus,
/// and for floating point also the other forms of std::from_chars. No spaces, no plus sign. Otherwise returns
/// nullopt.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_as(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && after == end ? std::optional(number) : std::nullopt;
}

/// Does the same for an integer in hexadecimal digits.
template <std::integral Number>
[[nodiscard]] std::optional<Number> parse_hexadecimal_as(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number, 16);
  return error == std::errc{} && after == end ? std::optional(number) : std::nullopt;
}

}  // namespace evenkeel
