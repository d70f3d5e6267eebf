#include "evenkeel/mesh/mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <functional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// Returns a few grids for the number of ranks with which the test was started.
std::vector<Grid> grids_for(int world_size) {
  std::vector<Grid> grids;
  for (int tp = 1; tp <= world_size; ++tp) {
    for (int cp = 1; tp * cp <= world_size; ++cp) {
      for (int pp = 1; tp * cp * pp <= world_size; ++pp) {
        if (world_size % (tp * cp * pp) != 0) continue;
        const GridPoint sizes{tp, cp, world_size / (tp * cp * pp), pp};
        for (const char* order : {"tp-cp-dp-pp", "pp-dp-cp-tp", "dp-tp-pp-cp"})
          grids.emplace_back(sizes, RankOrder(order));
      }
    }
  }
  return grids;
}

TEST(Mesh, communicators_are_the_lines_of_the_grid) {
  const boost::mpi::communicator world;
  for (const Grid& grid : grids_for(world.size())) {
    const Mesh mesh(world, grid);
    EXPECT_EQ(mesh.here(), grid.point_of(WorldRank{world.rank()}));
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp}) {
      const boost::mpi::communicator& line = mesh.along(axis);
      EXPECT_EQ(line.rank(), mesh.here()[axis]);
      std::vector<int> members;
      boost::mpi::all_gather(line, world.rank(), members);
      std::vector<int> expected;
      for (const WorldRank rank : grid.line_through(mesh.here(), axis)) expected.push_back(rank.value());
      EXPECT_EQ(members, expected);
    }
  }
}

/// Checks the positions of the members, and that the rank in the group is the member's number.
void expect_is_group(const Communicator& comm, const ContextGroup& group, const Mesh& mesh) {
  EXPECT_EQ(comm.rank(), group.rank_of(mesh.data_place()).value());
  std::vector<int> members(static_cast<std::size_t>(comm.size()));
  comm.all_gather(mesh.rank().value(), std::span(members));
  std::vector<int> expected;
  for (int rank = 0; rank < mesh.grid().num_ranks(); ++rank) {
    const GridPoint there = mesh.grid().point_of(WorldRank{rank});
    if (there.tp != mesh.here().tp || there.pp != mesh.here().pp) continue;
    if (group.contains(data_place_of(there, mesh.grid().sizes()))) expected.push_back(rank);
  }
  std::ranges::sort(expected, {}, [&](int rank) {
    return data_place_of(mesh.grid().point_of(WorldRank{rank}), mesh.grid().sizes());
  });
  EXPECT_EQ(members, expected);
}

TEST(Mesh, groups_of_places_have_communicators) {
  const boost::mpi::communicator world;
  for (const Grid& grid : grids_for(world.size())) {
    if (grid.sizes().cp != 1) continue;
    const int places = grid.sizes().dp;
    const Mesh mesh(world, grid, true);
    for (const ContextGroup& group : context_groups(places, places))
      if (group.contains(mesh.data_place())) expect_is_group(mesh.context(group), group, mesh);
  }
}

TEST(ContextGroups, are_listed_by_size_and_first_place) {
  const std::vector<ContextGroup> groups = context_groups(6, 4);
  ASSERT_EQ(groups.size(), 10U);
  EXPECT_EQ(groups[5], (ContextGroup{DataPlace{5}, 1}));
  EXPECT_EQ(groups[8], (ContextGroup{DataPlace{4}, 2}));
  EXPECT_EQ(groups[9], (ContextGroup{DataPlace{0}, 4}));
  EXPECT_EQ(context_groups(6, 1).size(), 6U);
}

TEST(Mesh, finds_the_ranks_of_a_node_and_of_a_place_on_it) {
  const boost::mpi::communicator world;
  for (const Grid& grid : grids_for(world.size())) {
    const Mesh mesh(world, grid);
    ASSERT_EQ(mesh.nodes().size(), static_cast<std::size_t>(world.size()));
    std::vector<int> of_node;
    std::vector<int> of_place;
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (mesh.nodes()[at] != mesh.nodes()[static_cast<std::size_t>(world.rank())]) continue;
      of_node.push_back(rank);
      const GridPoint there = grid.point_of(WorldRank{rank});
      if (there.dp == mesh.here().dp && there.cp == mesh.here().cp) of_place.push_back(rank);
    }
    std::vector<int> members;
    boost::mpi::all_gather(mesh.node(), world.rank(), members);
    EXPECT_EQ(members, of_node);
    boost::mpi::all_gather(mesh.model_parallel_on_node(), world.rank(), members);
    EXPECT_EQ(members, of_place);
  }
}

TEST(Mesh, works_on_part_of_the_world) {
  const boost::mpi::communicator world;
  const boost::mpi::communicator half = world.split(world.rank() % 2);
  const Mesh mesh(half, Grid::fill_dp({1, 1, 1, 1}, {}, half.size()));
  EXPECT_EQ(mesh.world().size(), half.size());
  EXPECT_EQ(boost::mpi::all_reduce(mesh.along(Axis::dp), 1, std::plus<>()), half.size());
}

TEST(Mesh, a_grid_of_another_size_throws_on_every_rank) {
  const boost::mpi::communicator world;
  const Grid wrong({1, 1, world.size() + 1, 1}, {});
  EXPECT_THROW(Mesh(world, wrong), MeshError);
}

TEST(Mesh, an_mpi_failure_is_returned_and_thrown_with_the_calls_name) {
  const boost::mpi::communicator world;
  const Mesh mesh(world, Grid({1, 1, world.size(), 1}, {}));
  int value = 0;
  const int no_such_rank = world.size() + 5;
  const int code = MPI_Send(&value, 1, MPI_INT, no_such_rank, 0, mesh.world());
  try {
    check_mpi(code, "MPI_Send");
    FAIL() << "sending to a rank outside the communicator must fail";
  } catch (const MpiError& error) {
    EXPECT_EQ(error.report().where, "MPI_Send");
    EXPECT_FALSE(error.report().message.empty());
  }
}

}  // namespace
}  // namespace evenkeel
