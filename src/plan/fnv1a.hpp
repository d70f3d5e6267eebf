#pragma once

#include <cstdint>

namespace evenkeel {

/// FNV-1a over the bytes of 64-bit numbers, least significant byte first.
class Fnv1a {
 public:
  void add(std::int64_t number) noexcept {
    auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) hash_ = (hash_ ^ (bits & 0xff)) * 0x100000001b3;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace evenkeel
