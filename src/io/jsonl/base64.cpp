#include "io/jsonl/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 64;

constexpr std::array<std::uint8_t, 256> digit_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(no_digit);
  for (std::uint8_t i = 0; i < base64_digits.size(); ++i)
    values[static_cast<unsigned char>(base64_digits[i])] = i;
  return values;
}

constexpr std::array<std::uint8_t, 256> values_of_digits = digit_values();

std::uint8_t value_of_digit(char digit) noexcept {
  return values_of_digits[static_cast<unsigned char>(digit)];
}

std::size_t padding_of(std::string_view text) noexcept {
  if (text.ends_with("==")) return 2;
  return text.ends_with('=') ? 1 : 0;
}

}  // namespace

std::optional<std::size_t> base64_decoded_size(std::string_view text) noexcept {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = padding_of(text);
  const std::string_view digits = text.substr(0, text.size() - padding);
  if (std::ranges::any_of(digits, [](char digit) { return value_of_digit(digit) == no_digit; }))
    return std::nullopt;
  // Unused bits must be 0, so that each value has only one representation.
  const std::uint8_t unused = padding == 2 ? 0x0f : padding == 1 ? 0x03 : 0;
  if (padding > 0 && (value_of_digit(digits.back()) & unused) != 0) return std::nullopt;
  return text.size() / 4 * 3 - padding;
}

void decode_base64(std::string_view text, std::span<std::byte> out) noexcept {
  EVENKEEL_PRECONDITION(thorough, base64_decoded_size(text) == out.size(), text.size(), out.size());
  std::uint32_t bits = 0;
  int held = 0;
  auto next = out.begin();
  for (const char digit : text) {
    if (next == out.end()) break;
    bits = bits << 6U | value_of_digit(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    *next++ = static_cast<std::byte>(bits >> static_cast<unsigned>(held) & 0xffU);
  }
}

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0);
    for (std::size_t digit = 0; digit < 4; ++digit)
      text += digit <= count ? base64_digits[bits >> (18 - 6 * digit) & 0x3fU] : '=';
  }
  return text;
}

}  // namespace evenkeel
