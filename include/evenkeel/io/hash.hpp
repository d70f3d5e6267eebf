#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel {

/// 64-bit FNV-1a (Fowler, Noll, Vo) of the bytes of `text`: how a uid becomes a group. The same on every
/// platform. Example: the empty text gives 0xcbf29ce484222325, "a" gives 0xaf63dc4c8601ec8c.
[[nodiscard]] constexpr std::uint64_t fnv1a_64(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford): scrambles all bits. One to
/// one, so different numbers never collide.
[[nodiscard]] constexpr std::uint64_t mix_64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace evenkeel
