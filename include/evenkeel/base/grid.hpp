#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// Adjacent places that run a micro-batch together, each with its part of every sequence.
///
/// With a fixed cp, these are the cp places of one DP rank. With `mesh.cp: flexible`, the grid has one place
/// per DP rank, and every micro-batch has a group whose size is a power of two and whose first place is a
/// multiple of its size.
struct ContextGroup {
  DataPlace first{0};
  int size = 1;

  [[nodiscard]] constexpr bool contains(DataPlace place) const noexcept {
    return first <= place && place.value() - first.value() < size;
  }
  /// Returns the rank of a member in this group, which determines its part of the sequences. Precondition:
  /// contains(place).
  [[nodiscard]] constexpr CpRank rank_of(DataPlace place) const noexcept {
    EVENKEEL_PRECONDITION(cheap, contains(place), place.value(), first.value(), size);
    return CpRank{place.value() - first.value()};
  }
  friend constexpr bool operator==(const ContextGroup&, const ContextGroup&) = default;
};

/// Returns all groups whose size is a power of two, up to `largest` places: by ascending size, and for each
/// size by ascending first place. Libraries in which all ranks must take part in creating each group, such as
/// NCCL's process groups, should create them in this order. At most 2 * places groups. Local.
///
/// Example: for 6 places and `largest` = 4: six groups of size 1, then (first place, size) = (0, 2), (2, 2),
/// (4, 2), and (0, 4).
[[nodiscard]] inline std::vector<ContextGroup> context_groups(int places, int largest) {
  std::vector<ContextGroup> groups;
  for (std::int64_t size = 1; size <= largest && size <= places; size *= 2)
    for (std::int64_t first = 0; first + size <= places; first += size)
      groups.push_back({DataPlace{static_cast<int>(first)}, static_cast<int>(size)});
  return groups;
}

/// A dimension of the process grid.
enum class Axis : std::uint8_t { tp, cp, dp, pp };

[[nodiscard]] std::string_view name_of(Axis axis) noexcept;

/// The order in which ranks are arranged in the grid, fastest axis first.
class RankOrder {
 public:
  /// Megatron's order: tp, cp, dp, pp.
  constexpr RankOrder() = default;
  /// Parses "tp-cp-dp-pp" or any other order of the four axes. Throws ConfigError for any other text.
  explicit RankOrder(std::string_view text);

  [[nodiscard]] constexpr const std::array<Axis, 4>& axes() const noexcept { return axes_; }
  [[nodiscard]] std::string text() const;
  friend constexpr bool operator==(const RankOrder&, const RankOrder&) = default;

 private:
  std::array<Axis, 4> axes_{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
};

/// Sizes along the four axes, or a point's coordinates.
struct GridPoint {
  int tp = 0;
  int cp = 0;
  int dp = 0;
  int pp = 0;

  [[nodiscard]] constexpr int& operator[](Axis axis) noexcept {
    switch (axis) {
      case Axis::tp:
        return tp;
      case Axis::cp:
        return cp;
      case Axis::dp:
        return dp;
      case Axis::pp:
        break;
    }
    return pp;
  }
  [[nodiscard]] constexpr int operator[](Axis axis) const noexcept { return GridPoint(*this)[axis]; }
  friend constexpr bool operator==(const GridPoint&, const GridPoint&) = default;
};

/// Returns the place that determines which rows a point's rank holds: ranks that differ only along tp and pp
/// hold the same rows.
[[nodiscard]] constexpr DataPlace data_place_of(const GridPoint& point, const GridPoint& sizes) noexcept {
  return DataPlace{point.dp * sizes.cp + point.cp};
}

/// The process grid as arithmetic, without MPI: sizes along tp, cp, dp and pp, and the mapping between ranks
/// and coordinates. A value type.
///
/// Example: tp 2, cp 2, dp 2, pp 1 in the default order puts rank 5 (binary 101) at tp 1, cp 0, dp 1.
class Grid {
 public:
  Grid() : Grid({1, 1, 1, 1}, {}) {}
  /// Throws MeshError if a size is below 1 or the product exceeds 2^31-1.
  Grid(GridPoint sizes, RankOrder order);
  /// Makes a grid with dp = `world_size` / (tp*cp*pp); ignores sizes.dp. Throws MeshError if another size is
  /// below 1, or if tp*cp*pp does not divide `world_size`.
  static Grid fill_dp(GridPoint sizes, RankOrder order, int world_size);

  [[nodiscard]] const GridPoint& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const RankOrder& order() const noexcept { return order_; }
  /// Returns tp * cp * dp * pp.
  [[nodiscard]] int num_ranks() const noexcept { return num_ranks_; }

  /// Returns the coordinates of a rank. Throws MeshError if the rank is outside the grid.
  [[nodiscard]] GridPoint point_of(WorldRank rank) const;
  /// Returns the rank at these coordinates. Throws MeshError if a coordinate is outside the grid.
  [[nodiscard]] WorldRank rank_of(const GridPoint& point) const;
  /// Returns the ranks of `point` and of all points that differ from it only along `axis`, in the order of
  /// that coordinate. Throws MeshError if another coordinate is outside the grid.
  [[nodiscard]] std::vector<WorldRank> line_through(const GridPoint& point, Axis axis) const;

  /// Throws MeshError, with the product of the sizes, unless the grid has exactly `world_size` ranks.
  void require_world(int world_size) const;

  friend bool operator==(const Grid&, const Grid&) = default;

 private:
  GridPoint sizes_;
  RankOrder order_;
  int num_ranks_ = 1;
};

}  // namespace evenkeel
