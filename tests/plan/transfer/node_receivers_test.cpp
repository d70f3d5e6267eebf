#include "plan/transfer/node_receivers.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <numeric>

#include "plan/transfer/field_transfers.hpp"

namespace evenkeel {
namespace {

std::vector<int> on_one_node(int ranks) {
  return std::vector<int>(static_cast<std::size_t>(ranks), 0);
}

TEST(NodeReceivers, without_model_parallelism_every_rank_receives) {
  std::vector<int> everybody(8);
  std::iota(everybody.begin(), everybody.end(), 0);
  EXPECT_EQ(node_receivers(Grid::fill_dp({1, 2, 0, 1}, {}, 8), on_one_node(8)), everybody);
}

TEST(NodeReceivers, the_first_tensor_parallel_rank_receives_for_all_of_a_node) {
  const Grid grid = Grid::fill_dp({4, 1, 0, 1}, {}, 8);
  EXPECT_EQ(node_receivers(grid, on_one_node(8)), (std::vector{0, 0, 0, 0, 4, 4, 4, 4}));
  // If a tensor-parallel group spans two nodes, each of them receives the data.
  EXPECT_EQ(node_receivers(grid, std::vector{0, 0, 2, 2, 2, 2, 6, 6}), (std::vector{0, 0, 2, 2, 4, 4, 6, 6}));
}

TEST(NodeReceivers, the_last_pipeline_stage_receives_for_the_others_on_its_node) {
  const Grid grid = Grid::fill_dp({1, 1, 0, 4}, {}, 4);
  EXPECT_EQ(node_receivers(grid, on_one_node(4)), (std::vector{3, 3, 3, 3}));
  EXPECT_EQ(node_receivers(grid, std::vector{0, 0, 2, 2}), (std::vector{0, 0, 3, 3}));
}

TEST(NodeHolders, are_the_lowest_ranks_of_their_nodes_that_get_the_field) {
  const Grid grid = Grid::fill_dp({1, 1, 0, 2}, {}, 8);  // ranks 0 to 3 form the first stage
  CarriedField last{
      {"image", DType::uint8, FieldKind::bytes, {}}, DType::uint8, DType::uint8, 0, {}, false, {}};
  CarriedField first = last;
  first.stage = 0;
  CarriedField all = last;
  all.to_all_stages = true;
  const std::vector fields{last, first, all};
  const std::vector nodes{0, 0, 2, 2, 2, 2, 6, 6};
  EXPECT_EQ(node_holders(grid, nodes, fields, 0), (std::vector{-1, -1, -1, -1, 4, 4, 6, 6}));
  EXPECT_EQ(node_holders(grid, nodes, fields, 1), (std::vector{0, 0, 2, 2, -1, -1, -1, -1}));
  EXPECT_EQ(node_holders(grid, nodes, fields, 2), (std::vector{0, 0, 2, 2, 2, 2, 6, 6}));
}

RC_GTEST_PROP(NodeReceivers, one_rank_per_place_and_node_receives_for_the_others, ()) {
  const int tp = *rc::gen::inRange(1, 5);
  const int cp = *rc::gen::inRange(1, 4);
  const int pp = *rc::gen::inRange(1, 5);
  const int ranks = tp * cp * pp * *rc::gen::inRange(1, 4);
  const Grid grid = Grid::fill_dp({tp, cp, 0, pp}, {}, ranks);
  const auto nodes =
      *rc::gen::container<std::vector<int>>(static_cast<std::size_t>(ranks), rc::gen::inRange(0, 3));
  const std::vector<int> receivers = node_receivers(grid, nodes);
  std::map<std::tuple<int, int, int>, int> recipient_of_group;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const int receiver = receivers[at];
    const GridPoint place = grid.point_of(WorldRank{rank});
    const auto group = std::tuple(place.dp, place.cp, nodes[at]);
    RC_ASSERT(recipient_of_group.try_emplace(group, receiver).first->second == receiver);
    RC_ASSERT(receivers[static_cast<std::size_t>(receiver)] == receiver);
    RC_ASSERT(nodes[static_cast<std::size_t>(receiver)] == nodes[at]);
    const PipelineStage stage{place.pp, pp};
    const PipelineStage receiving{grid.point_of(WorldRank{receiver}).pp, pp};
    RC_ASSERT(receiving.is_last() || !stage.is_last());
    RC_ASSERT(receiving.is_last() || receiving.is_first() || !stage.is_first());
  }
}

}  // namespace
}  // namespace evenkeel
