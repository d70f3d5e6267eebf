#include "base/text/token_unit.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

namespace evenkeel {
namespace {

/// 0 for what is no unit.
std::int64_t tokens_of(char unit) noexcept {
  if (unit == 'k' || unit == 'K') return 1024;
  return unit == 'M' ? 1024 * 1024 : 0;
}

}  // namespace

std::optional<std::int64_t> tokens_with_unit(std::string_view text) noexcept {
  if (text.size() < 2) return std::nullopt;
  const std::int64_t unit = tokens_of(text.back());
  const std::string_view digits = text.substr(0, text.size() - 1);
  if (unit == 0 || !std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; }))
    return std::nullopt;
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  std::int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return result.ec != std::errc{} || number > largest / unit ? largest : number * unit;
}

}  // namespace evenkeel
