#include "stream/key.hpp"

#include <string_view>
#include <variant>

#include "base/utf8.hpp"

namespace evenkeel::stream {
namespace {

__extension__ using Bits128 = unsigned __int128;

/// FNV-1a of 128 bits (Fowler, Noll, Vo).
class Fnv128 {
 public:
  void add(unsigned char byte) noexcept { hash_ = (hash_ ^ byte) * prime; }
  void add(std::string_view text) noexcept {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void add(std::uint64_t number) noexcept {
    for (int byte = 0; byte < 8; ++byte, number >>= 8) add(static_cast<unsigned char>(number & 0xff));
  }
  [[nodiscard]] GroupKey key() const noexcept {
    return {static_cast<std::uint64_t>(hash_ >> 64), static_cast<std::uint64_t>(hash_)};
  }

 private:
  static constexpr Bits128 prime = (Bits128{1} << 88) + 0x13b;
  Bits128 hash_ = (Bits128{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
};

/// The kind of a uid, so that equal bytes of two kinds differ.
enum class UidKind : unsigned char { none, number, negative, text };

}  // namespace

GroupKey group_key(const Uid& uid) noexcept {
  Fnv128 hash;
  const auto add = [&](UidKind kind, auto value) {
    hash.add(static_cast<unsigned char>(kind));
    hash.add(value);
  };
  if (const auto* text = std::get_if<std::string>(&uid)) {
    add(UidKind::text, std::string_view(*text));
  } else if (const auto* number = std::get_if<std::int64_t>(&uid)) {
    add(*number < 0 ? UidKind::negative : UidKind::number, static_cast<std::uint64_t>(*number));
  } else if (const auto* large = std::get_if<std::uint64_t>(&uid)) {
    add(UidKind::number, *large);
  } else {
    hash.add(static_cast<unsigned char>(UidKind::none));
  }
  return hash.key();
}

std::string to_text(const Uid& uid) {
  if (const auto* text = std::get_if<std::string>(&uid))
    return std::string("'").append(printable(*text)).append("'");
  if (const auto* number = std::get_if<std::int64_t>(&uid)) return std::to_string(*number);
  if (const auto* large = std::get_if<std::uint64_t>(&uid)) return std::to_string(*large);
  return "without a uid";
}

}  // namespace evenkeel::stream
