#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// Which sizes groups may have where micro-batches have groups of their own.
enum class ContextSizes : std::uint8_t {
  powers_of_two,  ///< and a group's first place is a multiple of its size
  any,            ///< every one up to 16, eight from one power of two to the next, and the largest; anywhere
};

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

/// All groups of powers of two of places, up to `largest` of them, in the order in which libraries whose
/// groups are made by all ranks together, such as NCCL's process groups, should make them: size by size from
/// 1, and of each size from the first place on. 2 * places groups at most. Local.
///
/// Example: of 6 places, up to 4: six of 1, (0, 2), (2, 2), (4, 2), and (0, 4).
[[nodiscard]] inline std::vector<ContextGroup> context_groups(int places, int largest) {
  std::vector<ContextGroup> groups;
  for (std::int64_t size = 1; size <= largest && size <= places; size *= 2)
    for (std::int64_t first = 0; first + size <= places; first += size)
      groups.push_back({DataPlace{static_cast<int>(first)}, static_cast<int>(size)});
  return groups;
}

}  // namespace evenkeel
