#include "evenkeel/base/grid.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::array<Axis, 4> all_axes{Axis::tp, Axis::cp, Axis::dp, Axis::pp};

std::string describe(const GridPoint& point, const std::string& separator) {
  std::string text;
  for (const Axis axis : all_axes) {
    text += (text.empty() ? "" : separator) + std::string(name_of(axis)) + " " + std::to_string(point[axis]);
  }
  return text;
}

std::string describe_sizes(const GridPoint& sizes) {
  return describe(sizes, " x ");
}

void require_positive(const GridPoint& sizes) {
  for (const Axis axis : all_axes) {
    if (sizes[axis] >= 1) continue;
    throw MeshError("mesh." + std::string(name_of(axis)),
                    "is " + std::to_string(sizes[axis]) + "; every size must be at least 1");
  }
}

/// Returns the product of the sizes. Throws MeshError if it exceeds the number of ranks that MPI supports.
/// Precondition: every size is positive.
int product_of(const GridPoint& sizes) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  std::int64_t product = 1;
  for (const Axis axis : all_axes) {
    EVENKEEL_PRECONDITION(cheap, sizes[axis] >= 1, name_of(axis), sizes[axis]);
    product *= sizes[axis];
    if (product > most)
      throw MeshError("mesh",
                      describe_sizes(sizes) + " needs more than " + std::to_string(most) +
                          " ranks, the maximum that MPI supports",
                      "Lower one of the sizes");
  }
  return static_cast<int>(product);
}

}  // namespace

std::string_view name_of(Axis axis) noexcept {
  switch (axis) {
    case Axis::tp:
      return "tp";
    case Axis::cp:
      return "cp";
    case Axis::dp:
      return "dp";
    case Axis::pp:
      return "pp";
  }
  return "unknown axis";
}

RankOrder::RankOrder(std::string_view text) {
  std::string remaining = std::string(text) + "-";
  std::array<bool, 4> seen{};
  std::size_t count = 0;
  while (!remaining.empty()) {
    const std::size_t dash = remaining.find('-');
    const std::string word = remaining.substr(0, dash);
    remaining.erase(0, dash + 1);
    const auto axis = std::ranges::find_if(all_axes, [&](Axis a) { return name_of(a) == word; });
    if (axis == all_axes.end() || count == 4 || std::exchange(seen[static_cast<std::size_t>(*axis)], true)) {
      count = 0;
      break;
    }
    axes_[count++] = *axis;
  }
  if (count != 4) {
    throw ConfigError("mesh.order", "'" + std::string(text) + "' is not an order of the four axes",
                      "Write each of tp, cp, dp and pp once, fastest first, as in tp-cp-dp-pp");
  }
}

std::string RankOrder::text() const {
  std::string text;
  for (const Axis axis : axes_) text += (text.empty() ? "" : "-") + std::string(name_of(axis));
  return text;
}

Grid::Grid(GridPoint sizes, RankOrder order) : sizes_(sizes), order_(order) {
  require_positive(sizes);
  num_ranks_ = product_of(sizes);
}

Grid Grid::fill_dp(GridPoint sizes, RankOrder order, int world_size) {
  sizes.dp = 1;
  require_positive(sizes);
  const int rest = product_of(sizes);
  if (world_size < rest || world_size % rest != 0) {
    throw MeshError(
        "mesh",
        "tp " + std::to_string(sizes.tp) + " x cp " + std::to_string(sizes.cp) + " x pp " +
            std::to_string(sizes.pp) + " = " + std::to_string(rest) + " does not divide the " +
            format_plain_count(world_size, "rank") + " of the world",
        "Start a multiple of " + std::to_string(rest) + " ranks, or change mesh.tp, mesh.cp or mesh.pp");
  }
  sizes.dp = world_size / rest;
  return {sizes, order};
}

GridPoint Grid::point_of(WorldRank rank) const {
  if (rank.value() < 0 || rank.value() >= num_ranks_) {
    throw MeshError("mesh", "rank " + std::to_string(rank.value()) + " is outside a grid of " +
                                format_plain_count(num_ranks_, "rank"));
  }
  GridPoint point;
  int rest = rank.value();
  for (const Axis axis : order_.axes()) {
    point[axis] = rest % sizes_[axis];
    rest /= sizes_[axis];
  }
  return point;
}

WorldRank Grid::rank_of(const GridPoint& point) const {
  int rank = 0;
  int stride = 1;
  for (const Axis axis : order_.axes()) {
    if (point[axis] < 0 || point[axis] >= sizes_[axis]) {
      throw MeshError(
          "mesh", "position " + describe(point, ", ") + " is outside a grid of " + describe_sizes(sizes_));
    }
    rank += point[axis] * stride;
    stride *= sizes_[axis];
  }
  return WorldRank{rank};
}

std::vector<WorldRank> Grid::line_through(const GridPoint& point, Axis axis) const {
  std::vector<WorldRank> ranks;
  GridPoint at = point;
  for (at[axis] = 0; at[axis] < sizes_[axis]; ++at[axis]) ranks.push_back(rank_of(at));
  return ranks;
}

void Grid::require_world(int world_size) const {
  if (num_ranks_ == world_size) return;
  const bool can_fill_dp = world_size % (num_ranks_ / sizes_.dp) == 0;
  throw MeshError("mesh",
                  describe_sizes(sizes_) + " = " + format_plain_count(num_ranks_, "rank") +
                      ", but the world has " + std::to_string(world_size),
                  "Start " + format_plain_count(num_ranks_, "rank") +
                      (can_fill_dp ? ", or set mesh.dp: auto" : ", or change the sizes of the mesh"));
}

}  // namespace evenkeel
