#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/hash.hpp"

namespace evenkeel {

/// A hash of bytes, for comparing much at once. It reads words as they lie in memory, so it differs between
/// byte orders: for ranks of one job, and for stores that such machines share anyway. Four words at a time,
/// which do not wait for each other: about as fast as memory.
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

}  // namespace evenkeel
