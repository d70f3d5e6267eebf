#include "plan/transfer/node_receivers.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "plan/transfer/field_transfers.hpp"

namespace evenkeel {
namespace {

// Returns a number that orders stages by the fields that they need: a stage with a higher number needs every
// field that a stage with a lower number needs.
int stage_priority(const GridPoint& place, const GridPoint& sizes) {
  const PipelineStage stage{place.pp, sizes.pp};
  return stage.is_last() ? 2 : stage.is_first() ? 1 : 0;
}

}  // namespace

std::vector<int> node_receivers(const Grid& grid, std::span<const int> nodes) {
  const auto group_of = [&](int rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    return std::array{place.dp, place.cp, nodes[static_cast<std::size_t>(rank)]};
  };
  const auto needs_of = [&](int rank) {
    return stage_priority(grid.point_of(WorldRank{rank}), grid.sizes());
  };
  std::map<std::array<int, 3>, int> neediest;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const auto [known, is_new] = neediest.try_emplace(group_of(rank), rank);
    if (!is_new && needs_of(rank) > needs_of(known->second)) known->second = rank;
  }
  std::vector<int> receivers;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) receivers.push_back(neediest.at(group_of(rank)));
  return receivers;
}

std::vector<int> stage_receivers(const Grid& grid, std::span<const int> nodes) {
  std::map<std::array<int, 4>, int> lowest;
  std::vector<int> receivers;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    const std::array stage{place.dp, place.cp, place.pp, nodes[static_cast<std::size_t>(rank)]};
    receivers.push_back(lowest.try_emplace(stage, rank).first->second);
  }
  return receivers;
}

std::vector<int> node_holders(const Grid& grid, std::span<const int> nodes,
                              std::span<const CarriedField> fields, std::size_t f) {
  std::map<int, int> lowest;
  std::vector<int> holders;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const PipelineStage stage{grid.point_of(WorldRank{rank}).pp, grid.sizes().pp};
    const bool is_handed = std::ranges::count(fields_for_stage(fields, stage), f) > 0;
    const int node = nodes[static_cast<std::size_t>(rank)];
    holders.push_back(is_handed ? lowest.try_emplace(node, rank).first->second : -1);
  }
  return holders;
}

}  // namespace evenkeel
