#include "mesh/nodes.hpp"

#include "mesh/fail_together.hpp"

namespace evenkeel {

std::vector<int> nodes_of_ranks(const Communicator& comm) {
  const Communicator node = comm.split_by_node();
  std::vector<int> nodes =
      run_together(comm, [&] { return std::vector<int>(static_cast<std::size_t>(comm.size())); });
  int lowest = comm.rank();
  node.broadcast(lowest, 0);
  comm.all_gather<int>(lowest, nodes);
  return nodes;
}

}  // namespace evenkeel
