#pragma once

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// The places that run a micro-batch together, each with its part of every sequence: neighbours.
///
/// With a fixed cp these are the places of one DP rank, cp of them. With `mesh.cp: flexible` the grid has one
/// place a DP rank, and every micro-batch a group of its own size.
struct ContextGroup {
  DataPlace first{0};
  int size = 1;

  [[nodiscard]] constexpr bool contains(DataPlace place) const noexcept {
    return first <= place && place.value() - first.value() < size;
  }
  /// Which part of the sequences is a member's. Precondition: contains(place).
  [[nodiscard]] constexpr CpRank rank_of(DataPlace place) const noexcept {
    EVENKEEL_PRECONDITION(cheap, contains(place), place.value(), first.value(), size);
    return CpRank{place.value() - first.value()};
  }
  friend constexpr bool operator==(const ContextGroup&, const ContextGroup&) = default;
};

}  // namespace evenkeel
