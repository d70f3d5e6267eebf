#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel {

inline constexpr std::uint64_t fnv1a_basis = 0xcbf29ce484222325;
inline constexpr std::uint64_t fnv1a_prime = 0x100000001b3;

/// 64-bit FNV-1a (Fowler, Noll, Vo) of bytes as they come. The same on every platform.
class Fnv1a {
 public:
  constexpr void add(std::string_view bytes) noexcept {
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
  }
  /// Its 8 bytes, the least significant one first.
  constexpr void add(std::int64_t number) noexcept {
    auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) add_byte(static_cast<unsigned char>(bits & 0xff));
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return hash_; }

 private:
  constexpr void add_byte(unsigned char byte) noexcept { hash_ = (hash_ ^ byte) * fnv1a_prime; }

  std::uint64_t hash_ = fnv1a_basis;
};

/// FNV-1a of a text: how a uid becomes a group. Example: the empty text gives 0xcbf29ce484222325, "a" gives
/// 0xaf63dc4c8601ec8c.
[[nodiscard]] constexpr std::uint64_t fnv1a_64(std::string_view text) noexcept {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford): scrambles all bits. One to
/// one, so different numbers never collide.
[[nodiscard]] constexpr std::uint64_t mix_64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace evenkeel
