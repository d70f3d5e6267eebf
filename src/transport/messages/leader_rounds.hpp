#pragma once

#include <memory>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "transport/block_list.hpp"
#include "transport/messages/node_aggregation.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

/// The nodes of a communicator, its leaders, and the memory in which this rank stages what it leads.
class NodeGroup {
 public:
  /// Collective over `comm` the first time; kept with the communicator.
  [[nodiscard]] static NodeGroup& of(const Communicator& comm);
  /// `nodes[r]` is the lowest rank on rank r's node, `node` are the ranks of this one's. Local.
  NodeGroup(int rank, Communicator node, std::span<const int> nodes);

  [[nodiscard]] const NodeLeaders& leaders() const noexcept { return leaders_; }
  [[nodiscard]] bool on_this_node(int rank) const noexcept {
    return leaders_.node_of(rank) == leaders_.node_of(rank_);
  }

  /// Collective over `comm` the first time: gets the memory of leaders, where there are any. Throws the same
  /// error on every rank when one has too little.
  void reserve(const Communicator& comm);

  /// Collective over the node: tells its ranks how many bytes each sends and receives. Takes no memory, and
  /// takes lists that a rank could not make for empty ones. Precondition: reserve() was called.
  void compare_sizes(const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                     NodeAggregation mode);
  /// The plan for the lists of compare_sizes(). Local.
  [[nodiscard]] LeaderPlan plan(NodeAggregation mode) const;

  /// leader_staging_bytes each, on leaders. In the shared heap, so that members copy straight out of it.
  [[nodiscard]] std::byte* outgoing() const noexcept { return outgoing_.get(); }
  [[nodiscard]] std::byte* incoming() const noexcept { return incoming_.get(); }

 private:
  [[nodiscard]] bool leads() const noexcept;
  [[nodiscard]] bool may_lead(NodeAggregation mode) const noexcept {
    return mode != NodeAggregation::never && leaders_.any_pair_shares_messages();
  }

  int rank_;
  Communicator node_;
  NodeLeaders leaders_;
  HeapBytes outgoing_;
  HeapBytes incoming_;
  std::vector<std::int64_t> row_;   // what this rank sends every rank, then what it receives
  std::vector<std::int64_t> rows_;  // of all members
  bool reserved_ = false;
};

/// The lists of the three rounds in which bytes go through leaders, by rank of the communicator: inside the
/// sending node, from leader to leader, and inside the receiving node. They point into the lists they are
/// made from and into the group's memory.
struct LeaderRounds {
  struct Lists {
    explicit Lists(std::size_t ranks) : sends(ranks), receives(ranks) {}
    std::vector<BlockList> sends;
    std::vector<BlockList> receives;
  };

  LeaderRounds(const LeaderPlan& plan, const NodeGroup& group, const std::vector<BlockList>& sends,
               const std::vector<BlockList>& receives);

  Lists collect;
  Lists between;
  Lists hand_on;
};

}  // namespace evenkeel
