#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace evenkeel {

inline constexpr std::uint64_t fnv1a_basis = 0xcbf29ce484222325;
inline constexpr std::uint64_t fnv1a_prime = 0x100000001b3;

/// Computes the 64-bit FNV-1a hash (Fowler, Noll, Vo). The hash is the same on every platform.
class Fnv1a {
 public:
  constexpr void add(std::string_view bytes) noexcept {
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
  }
  /// Adds the 8 bytes of the number, least significant byte first.
  constexpr void add(std::int64_t number) noexcept {
    auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) add_byte(static_cast<unsigned char>(bits & 0xff));
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return hash_; }

 private:
  constexpr void add_byte(unsigned char byte) noexcept { hash_ = (hash_ ^ byte) * fnv1a_prime; }

  std::uint64_t hash_ = fnv1a_basis;
};

/// Returns the FNV-1a hash of a string. Used to derive a group number from a uid. Examples: the empty string
/// gives 0xcbf29ce484222325, "a" gives 0xaf63dc4c8601ec8c.
[[nodiscard]] constexpr std::uint64_t fnv1a_64(std::string_view text) noexcept {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

/// Mixes all bits with the finalizer of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford).
/// Bijective, so different numbers never collide.
[[nodiscard]] constexpr std::uint64_t mix_64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Returns a fast hash of bytes, for comparing large data. It reads words in native byte order, so hashes are
/// comparable only between machines with the same byte order. The ranks of a job, and the stores that they
/// share, must have the same byte order. With four independent lanes, the function runs at about memory
/// speed.
[[nodiscard]] inline std::uint64_t hash_of_bytes(std::span<const std::byte> bytes) noexcept {
  std::array<std::uint64_t, 4> lanes{bytes.size(), 1, 2, 3};
  while (!bytes.empty()) {
    std::array<std::uint64_t, lanes.size()> words{};
    const std::size_t size = std::min(bytes.size(), sizeof(words));
    std::memcpy(words.data(), bytes.data(), size);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mix_64(lanes[i] ^ words[i]) + words[i];
    bytes = bytes.subspan(size);
  }
  std::uint64_t hash = 0;
  for (const std::uint64_t lane : lanes) hash = mix_64(hash ^ lane) + lane;
  return hash;
}

/// Pseudo-random numbers for the moves of a search. The sequence is the same on every platform and in every
/// run: SplitMix64 (Steele, Lea, Flood 2014), beginning with state 0. The modulo bias is negligible if `end`
/// is far below 2^64.
class SplitMix64 {
 public:
  /// Returns a number in 0 .. end - 1. Precondition: end >= 1.
  template <std::integral T>
  T random_below(T end) noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    return static_cast<T>(mix_64(state_) % static_cast<std::uint64_t>(end));
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace evenkeel
