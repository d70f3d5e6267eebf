#include "mesh/nodes.hpp"

#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/vector.hpp>
#include <vector>

namespace evenkeel {
namespace {

/// Returns, for each rank of `comm`, whether this rank shares memory with it according to MPI, without
/// nodes_of_ranks.
std::vector<bool> shares_memory(const boost::mpi::communicator& comm) {
  MPI_Comm shared = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
  const boost::mpi::communicator node(shared, boost::mpi::comm_take_ownership);
  std::vector<int> members;
  boost::mpi::all_gather(node, comm.rank(), members);
  std::vector<bool> shares(static_cast<std::size_t>(comm.size()), false);
  for (const int member : members) shares[static_cast<std::size_t>(member)] = true;
  return shares;
}

void expect_nodes(const boost::mpi::communicator& comm) {
  const std::vector<int> nodes = nodes_of_ranks(comm);
  const std::vector<bool> shares = shares_memory(comm);
  ASSERT_EQ(nodes.size(), static_cast<std::size_t>(comm.size()));
  const int here = nodes[static_cast<std::size_t>(comm.rank())];
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    EXPECT_EQ(nodes[rank] == here, shares[rank]) << "rank " << rank;
  std::vector<std::vector<int>> of_all;
  boost::mpi::all_gather(comm, nodes, of_all);
  for (const std::vector<int>& other : of_all) EXPECT_EQ(other, nodes);
}

TEST(NodesOfRanks, equal_numbers_are_ranks_that_share_memory_and_all_ranks_agree) {
  expect_nodes(boost::mpi::communicator());
}

TEST(NodesOfRanks, a_node_is_named_after_its_lowest_rank) {
  const boost::mpi::communicator world;
  const std::vector<int> nodes = nodes_of_ranks(world);
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    ASSERT_GE(nodes[rank], 0);
    ASSERT_LE(nodes[rank], static_cast<int>(rank));
    const auto lowest = static_cast<std::size_t>(nodes[rank]);
    EXPECT_EQ(nodes[lowest], nodes[rank]);
  }
  EXPECT_EQ(nodes.front(), 0);
}

TEST(NodesOfRanks, are_numbered_by_the_ranks_of_the_communicator_asked_about) {
  const boost::mpi::communicator world;
  // The ranks of each half are in reverse order.
  const boost::mpi::communicator half = world.split(world.rank() % 2, -world.rank());
  expect_nodes(half);
  EXPECT_EQ(nodes_of_ranks(half).front(), 0);
}

TEST(NodesOfRanks, a_rank_alone_is_its_own_node) {
  const boost::mpi::communicator alone(MPI_COMM_SELF, boost::mpi::comm_attach);
  EXPECT_EQ(nodes_of_ranks(alone), std::vector<int>{0});
}

}  // namespace
}  // namespace evenkeel
