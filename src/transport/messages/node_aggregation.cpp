#include "transport/messages/node_aggregation.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/nodes.hpp"
#include "transport/comm_attribute.hpp"

namespace evenkeel {
namespace {

/// Makes the leader plan of one rank.
class Planner {
 public:
  Planner(const NodeLeaders& leaders, int rank, const NodeSizes& sizes)
      : leaders_(leaders),
        sizes_(sizes),
        rank_(rank),
        node_(leaders.node_of(rank)),
        members_(leaders.ranks_of(node_)) {
    const auto ranks = static_cast<std::size_t>(leaders.num_ranks());
    plan_.sending_leaders.assign(ranks, LeaderPlan::direct);
    plan_.receiving_leaders.assign(ranks, LeaderPlan::direct);
  }

  void add(int other, NodeAggregation mode) {
    if (should_use_leaders(mode, message_sizes(sizes_.to, other),
                           leaders_.max_bytes_through_leaders(node_, other)))
      add_sends(other);
    if (should_use_leaders(mode, message_sizes(sizes_.from, other),
                           leaders_.max_bytes_through_leaders(other, node_)))
      add_receives(other);
  }

  [[nodiscard]] LeaderPlan finish() && { return std::move(plan_); }

 private:
  [[nodiscard]] std::int64_t size(const std::vector<std::int64_t>& sizes, std::size_t member,
                                  int rank) const {
    return sizes[member * static_cast<std::size_t>(leaders_.num_ranks()) + static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] std::vector<std::int64_t> message_sizes(const std::vector<std::int64_t>& sizes,
                                                        int other) const {
    std::vector<std::int64_t> messages;
    for (std::size_t member = 0; member < members_.size(); ++member) {
      for (const int rank : leaders_.ranks_of(other)) messages.push_back(size(sizes, member, rank));
    }
    return messages;
  }

  void add_sends(int other) {
    const int leader = leaders_.leader(node_, other);
    for (const int to : leaders_.ranks_of(other))
      plan_.sending_leaders[static_cast<std::size_t>(to)] = leader;
    if (leader != rank_) return;
    const std::int64_t begin = outgoing_;
    for (const int to : leaders_.ranks_of(other)) {
      for (std::size_t member = 0; member < members_.size(); ++member)
        outgoing_ += append_part(plan_.collected, members_[member], outgoing_, size(sizes_.to, member, to));
    }
    append_part(plan_.outgoing, leaders_.leader(other, node_), begin, outgoing_ - begin);
  }

  void add_receives(int other) {
    const int leader = leaders_.leader(node_, other);
    for (const int from : leaders_.ranks_of(other))
      plan_.receiving_leaders[static_cast<std::size_t>(from)] = leader;
    if (leader != rank_) return;
    const std::int64_t begin = incoming_;
    for (std::size_t member = 0; member < members_.size(); ++member) {
      std::int64_t bytes = 0;
      for (const int from : leaders_.ranks_of(other)) bytes += size(sizes_.from, member, from);
      incoming_ += append_part(plan_.distributed, members_[member], incoming_, bytes);
    }
    append_part(plan_.incoming, leaders_.leader(other, node_), begin, incoming_ - begin);
  }

  static std::int64_t append_part(std::vector<StagedPart>& parts, int rank, std::int64_t offset,
                                  std::int64_t bytes) {
    if (bytes > 0) parts.push_back({rank, offset, bytes});
    return bytes;
  }

  const NodeLeaders& leaders_;
  const NodeSizes& sizes_;
  int rank_;
  int node_;
  std::span<const int> members_;
  std::int64_t outgoing_ = 0;  // bytes staged so far for messages to other nodes
  std::int64_t incoming_ = 0;
  LeaderPlan plan_;
};

void append(const BlockList& from, BlockList& to) {
  for (const BlockList::Block& block : from.blocks()) to.add(block, from.views());
}

// Splits the gathered rows of all members. Each row has the number of bytes that a member sends to each rank,
// followed by the number that it receives from each rank.
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

NodeLeaders::NodeLeaders(std::span<const int> nodes) {
  std::map<int, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    ranks[nodes[rank]].push_back(static_cast<int>(rank));
  node_of_rank_.resize(nodes.size());
  for (auto& [lowest, of_node] : ranks) {
    for (const int rank : of_node) node_of_rank_[static_cast<std::size_t>(rank)] = num_nodes();
    ranks_.push_back(std::move(of_node));
  }
}

int NodeLeaders::leader(int node, int other) const noexcept {
  const std::span<const int> ranks = ranks_of(node);
  const auto turn = static_cast<std::size_t>(other < node ? other : other - 1);
  return ranks[turn % ranks.size()];
}

std::int64_t NodeLeaders::max_nodes_per_leader(int node) const noexcept {
  const auto ranks = std::ssize(ranks_of(node));
  return (num_nodes() - 1 + ranks - 1) / ranks;
}

std::int64_t NodeLeaders::max_bytes_through_leaders(int node, int other) const noexcept {
  return leader_staging_bytes / std::max(max_nodes_per_leader(node), max_nodes_per_leader(other));
}

bool NodeLeaders::can_aggregate_messages() const noexcept {
  return num_nodes() > 1 && num_nodes() < num_ranks();
}

bool LeaderPlan::uses_leaders() const noexcept {
  const auto led = [](int leader) { return leader != direct; };
  return std::ranges::any_of(sending_leaders, led) || std::ranges::any_of(receiving_leaders, led);
}

bool should_use_leaders(NodeAggregation mode, std::span<const std::int64_t> messages,
                        std::int64_t max_bytes) noexcept {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  for (const std::int64_t message : messages) {
    if (message > 0) ++count;
    bytes += message;
  }
  if (mode == NodeAggregation::never || count < 2 || bytes > max_bytes) return false;
  return mode == NodeAggregation::always || bytes <= count * small_message_bytes;
}

LeaderPlan plan_leaders(const NodeLeaders& leaders, int rank, const NodeSizes& sizes, NodeAggregation mode) {
  Planner planner(leaders, rank, sizes);
  for (int other = 0; mode != NodeAggregation::never && other < leaders.num_nodes(); ++other) {
    if (other != leaders.node_of(rank)) planner.add(other, mode);
  }
  return std::move(planner).finish();
}

NodeGroup& NodeGroup::get(const Communicator& comm) {
  return comm_attribute<NodeGroup>(comm, [&] {
    Communicator node = comm.split_by_node();
    const std::vector<int> nodes = nodes_of_ranks(comm);
    return run_together(comm,
                        [&] { return std::make_unique<NodeGroup>(comm.rank(), std::move(node), nodes); });
  });
}

NodeGroup::NodeGroup(int rank, Communicator node, std::span<const int> nodes)
    : rank_(rank), node_(std::move(node)), leaders_(nodes) {}

bool NodeGroup::is_leader() const noexcept {
  const int node = leaders_.node_of(rank_);
  for (int other = 0; other < leaders_.num_nodes(); ++other) {
    if (other != node && leaders_.leader(node, other) == rank_) return true;
  }
  return false;
}

void NodeGroup::reserve(const Communicator& comm) {
  if (is_reserved_ || !leaders_.can_aggregate_messages()) return;
  run_together(comm, [&] {
    const auto ranks = static_cast<std::size_t>(narrow<int>(2 * comm.size(), "ranks of one exchange"));
    row_.resize(ranks);
    rows_.resize(ranks * static_cast<std::size_t>(node_.size()));
    if (!is_leader()) return;
    outgoing_ = allocate_heap_bytes(leader_staging_bytes);
    incoming_ = allocate_heap_bytes(leader_staging_bytes);
  });
  is_reserved_ = true;
}

void NodeGroup::gather_sizes(const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                             NodeAggregation mode) {
  if (!may_use_leaders(mode)) return;
  EVENKEEL_PRECONDITION(cheap, is_reserved_);
  const std::size_t ranks = row_.size() / 2;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    row_[rank] = rank < sends.size() ? sends[rank].bytes() : 0;
    row_[ranks + rank] = rank < receives.size() ? receives[rank].bytes() : 0;
  }
  node_.all_gather_bytes(std::as_bytes(std::span(row_)), std::as_writable_bytes(std::span(rows_)));
}

LeaderPlan NodeGroup::plan(NodeAggregation mode) const {
  if (!may_use_leaders(mode)) return plan_leaders(leaders_, rank_, {}, NodeAggregation::never);
  return plan_leaders(leaders_, rank_, split_rows(rows_, row_.size() / 2), mode);
}

LeaderRounds::LeaderRounds(const LeaderPlan& plan, const NodeGroup& group,
                           const std::vector<BlockList>& sends, const std::vector<BlockList>& receives)
    : collect(sends.size()), between(sends.size()), distribute(sends.size()) {
  const auto at = [](int rank) { return static_cast<std::size_t>(rank); };
  const auto add = [&](const std::vector<StagedPart>& parts, const std::byte* staging,
                       std::vector<BlockList>& lists) {
    for (const StagedPart& part : parts)
      lists[at(part.rank)].add(staging + part.offset, static_cast<std::size_t>(part.bytes));
  };
  // Iterates node by node, because leaders stage bytes in that order and a node's ranks need not be
  // consecutive.
  for (int node = 0; node < group.leaders().num_nodes(); ++node) {
    for (const int rank : group.leaders().ranks_of(node)) {
      if (const int leader = plan.sending_leaders[at(rank)]; leader != LeaderPlan::direct)
        append(sends[at(rank)], collect.sends[at(leader)]);
      if (const int leader = plan.receiving_leaders[at(rank)]; leader != LeaderPlan::direct)
        append(receives[at(rank)], distribute.receives[at(leader)]);
    }
  }
  add(plan.collected, group.outgoing(), collect.receives);
  add(plan.outgoing, group.outgoing(), between.sends);
  add(plan.incoming, group.incoming(), between.receives);
  add(plan.distributed, group.incoming(), distribute.sends);
}

}  // namespace evenkeel
