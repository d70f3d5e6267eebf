#include "transport/messages/leader_rounds.hpp"

#include <algorithm>
#include <utility>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/nodes.hpp"
#include "transport/comm_attribute.hpp"

namespace evenkeel {
namespace {

void append(const BlockList& from, BlockList& to) {
  for (const BlockList::Block& block : from.blocks()) to.add(block, from.views());
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

NodeGroup& NodeGroup::of(const Communicator& comm) {
  return comm_attribute<NodeGroup>(comm, [&] {
    Communicator node = comm.split_by_node();
    const std::vector<int> nodes = nodes_of_ranks(comm);
    return together(comm, [&] { return std::make_unique<NodeGroup>(comm.rank(), std::move(node), nodes); });
  });
}

NodeGroup::NodeGroup(int rank, Communicator node, std::span<const int> nodes)
    : rank_(rank), node_(std::move(node)), leaders_(nodes) {}

bool NodeGroup::leads() const noexcept {
  const int node = leaders_.node_of(rank_);
  for (int other = 0; other < leaders_.num_nodes(); ++other) {
    if (other != node && leaders_.leader(node, other) == rank_) return true;
  }
  return false;
}

void NodeGroup::reserve(const Communicator& comm) {
  if (reserved_ || !leaders_.any_pair_shares_messages()) return;
  together(comm, [&] {
    const auto ranks = static_cast<std::size_t>(narrow<int>(2 * comm.size(), "ranks of one exchange"));
    row_.resize(ranks);
    rows_.resize(ranks * static_cast<std::size_t>(node_.size()));
    if (!leads()) return;
    outgoing_ = heap_bytes(leader_staging_bytes);
    incoming_ = heap_bytes(leader_staging_bytes);
  });
  reserved_ = true;
}

void NodeGroup::compare_sizes(const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                              NodeAggregation mode) {
  if (!may_lead(mode)) return;
  EVENKEEL_PRECONDITION(cheap, reserved_);
  const std::size_t ranks = row_.size() / 2;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    row_[rank] = rank < sends.size() ? sends[rank].bytes() : 0;
    row_[ranks + rank] = rank < receives.size() ? receives[rank].bytes() : 0;
  }
  node_.all_gather_bytes(std::as_bytes(std::span(row_)), std::as_writable_bytes(std::span(rows_)));
}

LeaderPlan NodeGroup::plan(NodeAggregation mode) const {
  if (!may_lead(mode)) return plan_leaders(leaders_, rank_, {}, NodeAggregation::never);
  return plan_leaders(leaders_, rank_, split_rows(rows_, row_.size() / 2), mode);
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
