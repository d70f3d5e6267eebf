#include "base/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

bool is_continuation_byte(unsigned char byte) noexcept {
  return (byte & 0xc0U) == 0x80U;
}

/// Returns whether the next eight bytes are ASCII. Precondition: text.size() >= 8.
bool starts_with_eight_ascii_bytes(std::string_view text) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, text.data(), sizeof word);
  return (word & 0x8080808080808080U) == 0;
}

bool is_control(std::string_view sequence) noexcept {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;
}

void add_escaped(std::string& out, char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      const auto value = static_cast<unsigned char>(byte);
      out += "\\x";
      out += digits[value >> 4U];
      out += digits[value & 0xfU];
  }
}

}  // namespace

std::size_t utf8_sequence_length(std::string_view text) noexcept {
  EVENKEEL_PRECONDITION(cheap, !text.empty(), text.size());
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation_byte(at(i))) return 0;
  }
  const unsigned char second = at(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

std::size_t utf8_prefix_length(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    const bool is_ascii = rest.size() >= sizeof(std::uint64_t) && starts_with_eight_ascii_bytes(rest);
    const std::size_t length = is_ascii ? sizeof(std::uint64_t) : utf8_sequence_length(rest);
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(sequence)) {
      for (const char byte : sequence) add_escaped(out, byte);
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace evenkeel
