#include "base/text/byte_unit.hpp"

#include <array>
#include <charconv>

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 5> units{"", "KiB", "MiB", "GiB", "TiB"};
constexpr int unit_bits = 10;
constexpr int most_bits = 50;

}  // namespace

std::optional<std::int64_t> bytes_with_unit(std::string_view text) noexcept {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number <= 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int shift = unit_bits * static_cast<int>(i);
    if (unit == units[i])
      return number <= std::int64_t{1} << (most_bits - shift) ? std::optional(number << shift) : std::nullopt;
  }
  return std::nullopt;
}

std::string text_with_unit(std::int64_t bytes) {
  constexpr std::int64_t next = std::int64_t{1} << unit_bits;
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && bytes != 0 && bytes % next == 0; ++unit) bytes /= next;
  return std::to_string(bytes) + std::string(units[unit]);
}

}  // namespace evenkeel
