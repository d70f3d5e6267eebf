#include "base/text_layout.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

namespace evenkeel {
namespace {

/// A space and the word for so many.
std::string named(std::int64_t number, std::string_view thing, std::string_view things) {
  std::string text = " ";
  if (number == 1 || things.empty()) text += thing;
  if (number != 1) text += things.empty() ? "s" : things;
  return text;
}

}  // namespace

std::string in_alarm(const std::string& text, bool is_colored) {
  return is_colored ? "\033[1;31m" + text + "\033[0m" : text;
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::int64_t first_digit = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string counted(std::int64_t number, std::string_view thing, std::string_view things) {
  return grouped(number) + named(number, thing, things);
}

std::string number_of(std::int64_t number, std::string_view thing, std::string_view things) {
  return std::to_string(number) + named(number, thing, things);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr double kib = 1024;
  const auto value = static_cast<double>(bytes);
  std::array<char, 32> text{};
  if (bytes >= std::int64_t{1} << 30) {
    std::snprintf(text.data(), text.size(), "%.2f GiB", value / (kib * kib * kib));
  } else if (bytes >= 1 << 20) {
    std::snprintf(text.data(), text.size(), "%.1f MiB", value / (kib * kib));
  } else {
    std::snprintf(text.data(), text.size(), "%.1f KiB", value / kib);
  }
  return text.data();
}

}  // namespace evenkeel
