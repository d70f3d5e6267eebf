#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <cstdlib>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "mesh/nodes.hpp"

namespace evenkeel {
namespace {

// Returns the ranks of each node according to launch/simulate-nodes.sh; elsewhere, one node with all ranks.
std::vector<int> ranks_of_nodes(int world_size) {
  const char* told = std::getenv("EVENKEEL_NODES");
  if (told == nullptr) return {world_size};
  std::vector<int> ranks;
  std::istringstream list(told);
  for (std::string number; std::getline(list, number, ',');) ranks.push_back(std::stoi(number));
  return ranks;
}

// Ranks fill the nodes in order.
int node_of(int rank, const std::vector<int>& ranks) {
  int node = 0;
  for (; rank >= ranks.at(static_cast<std::size_t>(node)); ++node)
    rank -= ranks[static_cast<std::size_t>(node)];
  return node;
}

boost::mpi::communicator node_of_this_rank(const boost::mpi::communicator& world) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, world.rank(), MPI_INFO_NULL, &node);
  return {node, boost::mpi::comm_take_ownership};
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

TEST(Nodes, every_node_has_a_host_name_of_its_own) {
  const boost::mpi::communicator world;
  const std::vector<int> ranks = ranks_of_nodes(world.size());
  std::vector<std::string> names;
  boost::mpi::all_gather(world, host_name(), names);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), ranks.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    const bool here = node_of(rank, ranks) == node_of(world.rank(), ranks);
    EXPECT_EQ(names[static_cast<std::size_t>(rank)] == host_name(), here) << "rank " << rank;
  }
}

TEST(Nodes, ranks_that_share_memory_are_those_of_one_node) {
  const boost::mpi::communicator world;
  const std::vector<int> ranks = ranks_of_nodes(world.size());
  const int mine = node_of(world.rank(), ranks);
  const boost::mpi::communicator node = node_of_this_rank(world);
  EXPECT_EQ(node.size(), ranks[static_cast<std::size_t>(mine)]);
  EXPECT_EQ(boost::mpi::all_reduce(node, mine, boost::mpi::minimum<int>()), mine);
  EXPECT_EQ(boost::mpi::all_reduce(node, mine, boost::mpi::maximum<int>()), mine);
}

TEST(Nodes, nodes_of_ranks_names_each_node_after_its_lowest_rank) {
  const boost::mpi::communicator world;
  const std::vector<int> ranks = ranks_of_nodes(world.size());
  const std::vector<int> nodes = nodes_of_ranks(world);
  int lowest = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank > 0 && node_of(rank, ranks) != node_of(rank - 1, ranks)) lowest = rank;
    EXPECT_EQ(nodes.at(static_cast<std::size_t>(rank)), lowest) << "rank " << rank;
  }
}

TEST(Nodes, a_shared_window_shows_each_rank_what_its_node_wrote) {
  const boost::mpi::communicator world;
  const boost::mpi::communicator node = node_of_this_rank(world);
  int* mine = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, static_cast<void*>(&mine), &window);
  MPI_Win_fence(0, window);
  *mine = 100 + world.rank();
  MPI_Win_fence(0, window);
  std::vector<int> world_ranks;
  boost::mpi::all_gather(node, world.rank(), world_ranks);
  for (int rank = 0; rank < node.size(); ++rank) {
    MPI_Aint bytes = 0;
    int unit = 0;
    const int* other = nullptr;
    MPI_Win_shared_query(window, rank, &bytes, &unit, static_cast<void*>(&other));
    EXPECT_EQ(*other, 100 + world_ranks[static_cast<std::size_t>(rank)]);
  }
  MPI_Win_free(&window);
}

TEST(Nodes, every_rank_reaches_every_other) {
  const boost::mpi::communicator world;
  std::vector<int> out(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank)
    out[static_cast<std::size_t>(rank)] = 10 * world.rank() + rank;
  std::vector<int> in;
  boost::mpi::all_to_all(world, out, in);
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(in[static_cast<std::size_t>(rank)], 10 * rank + world.rank());
}

}  // namespace
}  // namespace evenkeel
