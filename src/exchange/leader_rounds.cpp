#include "exchange/leader_rounds.hpp"

#include <algorithm>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "evenkeel/mesh/nodes.hpp"
#include "exchange/kept_with.hpp"

namespace evenkeel {
namespace {

void append(const BlockList& from, BlockList& to) {
  for (const BlockList::Block& block : from.blocks()) to.add(block.address, block.bytes);
}

// Members' rows one after the other, each what it sends every rank and then what it receives.
NodeSizes split_rows(const std::vector<std::int64_t>& rows, std::size_t ranks) {
  NodeSizes sizes;
  const auto width = static_cast<std::ptrdiff_t>(ranks);
  for (auto row = rows.begin(); row != rows.end(); row += 2 * width) {
    sizes.to.insert(sizes.to.end(), row, row + width);
    sizes.from.insert(sizes.from.end(), row + width, row + 2 * width);
  }
  return sizes;
}

}  // namespace

NodeGroup& NodeGroup::of(const boost::mpi::communicator& comm) {
  return kept_with<NodeGroup>(comm, [&] { return std::make_unique<NodeGroup>(comm); });
}

NodeGroup::NodeGroup(const boost::mpi::communicator& comm)
    : rank_(comm.rank()), node_(ranks_of_node(comm)), leaders_(nodes_of_ranks(comm)) {}

bool NodeGroup::leads() const noexcept {
  const int node = leaders_.node_of(rank_);
  for (int other = 0; other < leaders_.num_nodes(); ++other) {
    if (other != node && leaders_.leader(node, other) == rank_) return true;
  }
  return false;
}

void NodeGroup::reserve(const boost::mpi::communicator& comm) {
  if (reserved_ || !leaders_.any_pair_shares_messages()) return;
  together(comm, [&] {
    if (!leads()) return;
    outgoing_ = heap_bytes(leader_staging_bytes);
    incoming_ = heap_bytes(leader_staging_bytes);
  });
  reserved_ = true;
}

LeaderPlan NodeGroup::plan(const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                           NodeAggregation mode) const {
  if (mode == NodeAggregation::never || !leaders_.any_pair_shares_messages())
    return plan_leaders(leaders_, rank_, {}, NodeAggregation::never);
  std::vector<std::int64_t> mine;
  for (const BlockList& list : sends) mine.push_back(list.bytes());
  for (const BlockList& list : receives) mine.push_back(list.bytes());
  std::vector<std::int64_t> rows(mine.size() * static_cast<std::size_t>(node_.size()));
  const int count = narrow<int>(mine.size(), "ranks of one exchange");
  check_mpi(MPI_Allgather(mine.data(), count, MPI_INT64_T, rows.data(), count, MPI_INT64_T, node_),
            "MPI_Allgather");
  return plan_leaders(leaders_, rank_, split_rows(rows, sends.size()), mode);
}

LeaderRounds::LeaderRounds(const LeaderPlan& plan, const NodeGroup& group,
                           const std::vector<BlockList>& sends, const std::vector<BlockList>& receives)
    : collect(sends.size()), between(sends.size()), hand_on(sends.size()) {
  const auto at = [](int rank) { return static_cast<std::size_t>(rank); };
  const auto add = [&](const std::vector<StagedPart>& parts, const std::byte* staging,
                       std::vector<BlockList>& lists) {
    for (const StagedPart& part : parts)
      lists[at(part.rank)].add(staging + part.offset, static_cast<std::size_t>(part.bytes));
  };
  // Node by node, as leaders stage them: ranks of a node need not follow each other.
  for (int node = 0; node < group.leaders().num_nodes(); ++node) {
    for (const int rank : group.leaders().ranks_of(node)) {
      if (const int leader = plan.send_by[at(rank)]; leader != LeaderPlan::direct)
        append(sends[at(rank)], collect.sends[at(leader)]);
      if (const int leader = plan.receive_by[at(rank)]; leader != LeaderPlan::direct)
        append(receives[at(rank)], hand_on.receives[at(leader)]);
    }
  }
  add(plan.collected, group.outgoing(), collect.receives);
  add(plan.outgoing, group.outgoing(), between.sends);
  add(plan.incoming, group.incoming(), between.receives);
  add(plan.handed_on, group.incoming(), hand_on.sends);
}

}  // namespace evenkeel
