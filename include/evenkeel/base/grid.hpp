#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// A dimension of the process grid.
enum class Axis : std::uint8_t { tp, cp, dp, pp };

[[nodiscard]] std::string_view name_of(Axis axis) noexcept;

/// The order in which ranks run through the grid, fastest axis first.
class RankOrder {
 public:
  /// Megatron's order: tp, cp, dp, pp.
  constexpr RankOrder() = default;
  /// From "tp-cp-dp-pp" or any other order of the four. Throws ConfigError that shows the form.
  explicit RankOrder(std::string_view text);

  [[nodiscard]] constexpr const std::array<Axis, 4>& axes() const noexcept { return axes_; }
  [[nodiscard]] std::string text() const;
  friend constexpr bool operator==(const RankOrder&, const RankOrder&) = default;

 private:
  std::array<Axis, 4> axes_{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
};

/// Sizes of, or a place along, the four axes.
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

/// Whose rows a point's rank holds: ranks that differ along tp and pp only hold the same ones.
[[nodiscard]] constexpr DataPlace data_place_of(const GridPoint& point, const GridPoint& sizes) noexcept {
  return DataPlace{point.dp * sizes.cp + point.cp};
}

/// The process grid as arithmetic, without MPI: sizes along tp, cp, dp and pp, and the bijection between
/// ranks and coordinates. A value type.
///
/// Example: tp 2, cp 2, dp 2, pp 1 in the default order puts rank 5 (binary 101) at tp 1, cp 0, dp 1.
class Grid {
 public:
  Grid() : Grid({1, 1, 1, 1}, {}) {}
  /// Throws MeshError when a size is below 1 or the product passes 2^31-1.
  Grid(GridPoint sizes, RankOrder order);
  /// With dp = what remains of `world_size`. Throws MeshError when tp*cp*pp does not divide it.
  static Grid fill_dp(GridPoint sizes, RankOrder order, int world_size);

  [[nodiscard]] const GridPoint& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const RankOrder& order() const noexcept { return order_; }
  /// tp * cp * dp * pp
  [[nodiscard]] int num_ranks() const noexcept { return num_ranks_; }

  /// Throws MeshError when the rank or a coordinate is outside the grid.
  [[nodiscard]] GridPoint point_of(WorldRank rank) const;
  [[nodiscard]] WorldRank rank_of(const GridPoint& point) const;
  /// The ranks that differ from `point` along `axis` only, by rising coordinate.
  [[nodiscard]] std::vector<WorldRank> line_through(const GridPoint& point, Axis axis) const;

  /// Throws MeshError that shows the product unless the grid has exactly `world_size` ranks.
  void require_world(int world_size) const;

  friend bool operator==(const Grid&, const Grid&) = default;

 private:
  GridPoint sizes_;
  RankOrder order_;
  int num_ranks_ = 1;
};

}  // namespace evenkeel
