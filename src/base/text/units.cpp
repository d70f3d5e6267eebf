#include "base/text/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 5> units{"", "KiB", "MiB", "GiB", "TiB"};
constexpr int unit_bits = 10;
constexpr int max_bits = 50;

/// Returns the number of tokens in one unit ('k', 'K' or 'M'), or 0 for any other character.
std::int64_t tokens_per_unit(char unit) noexcept {
  if (unit == 'k' || unit == 'K') return 1024;
  return unit == 'M' ? 1024 * 1024 : 0;
}

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) noexcept {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number <= 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int shift = unit_bits * static_cast<int>(i);
    if (unit == units[i])
      return number <= std::int64_t{1} << (max_bits - shift) ? std::optional(number << shift) : std::nullopt;
  }
  return std::nullopt;
}

std::string format_with_unit(std::int64_t bytes) {
  constexpr std::int64_t next = std::int64_t{1} << unit_bits;
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && bytes != 0 && bytes % next == 0; ++unit) bytes /= next;
  return std::to_string(bytes) + std::string(units[unit]);
}

std::optional<std::int64_t> parse_tokens(std::string_view text) noexcept {
  if (text.size() < 2) return std::nullopt;
  const std::int64_t unit = tokens_per_unit(text.back());
  const std::string_view digits = text.substr(0, text.size() - 1);
  if (unit == 0 || !std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; }))
    return std::nullopt;
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  std::int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return result.ec != std::errc{} || number > largest / unit ? largest : number * unit;
}

}  // namespace evenkeel
