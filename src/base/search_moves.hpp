#pragma once

#include <concepts>
#include <cstdint>

#include "base/hash.hpp"

namespace evenkeel {

/// Numbers that a search tries its moves by, the same everywhere and every time: Steele, Lea and Flood's
/// SplitMix64 (2014) from state 0. As good as drawn for ends far below 2^64, which have a bias of their own.
class SearchMoves {
 public:
  /// 0 .. end - 1. Precondition: end >= 1.
  template <std::integral T>
  T below(T end) noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    return static_cast<T>(mix_64(state_) % static_cast<std::uint64_t>(end));
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace evenkeel
