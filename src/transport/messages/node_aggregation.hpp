#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "evenkeel/base/exchange_words.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "transport/block_list.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

/// Size in bytes of each of a leader's two staging buffers. One is for bytes to other nodes, the other for
/// bytes from other nodes.
inline constexpr std::int64_t leader_staging_bytes = std::int64_t{8} << 20;

/// The nodes of a communicator's ranks, numbered in the order of their lowest ranks, and their leaders. For
/// each other node, one rank of a node is the leader: it collects the bytes that its node sends to that node,
/// and receives the bytes that come from there. The ranks of a node take turns as leaders for the other
/// nodes.
class NodeLeaders {
 public:
  /// `nodes[r]` is the lowest rank on rank r's node.
  explicit NodeLeaders(std::span<const int> nodes);

  [[nodiscard]] int num_ranks() const noexcept { return static_cast<int>(node_of_rank_.size()); }
  [[nodiscard]] int num_nodes() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int node_of(int rank) const noexcept { return node_of_rank_[static_cast<std::size_t>(rank)]; }
  /// Returns the ranks of a node in ascending order.
  [[nodiscard]] std::span<const int> ranks_of(int node) const noexcept {
    return ranks_[static_cast<std::size_t>(node)];
  }

  /// Returns the rank of `node` that is the leader for `other`, which must be another node.
  [[nodiscard]] int leader(int node, int other) const noexcept;
  /// Returns the maximum number of bytes from `node` to `other` that are guaranteed to fit in the staging
  /// memory of both leaders, even if the same ranks are also the leaders for other nodes.
  [[nodiscard]] std::int64_t max_bytes_through_leaders(int node, int other) const noexcept;
  /// Returns whether there are several nodes and at least one node has several ranks.
  [[nodiscard]] bool can_aggregate_messages() const noexcept;

 private:
  // Returns the maximum number of other nodes for which any one rank of `node` is the leader.
  [[nodiscard]] std::int64_t max_nodes_per_leader(int node) const noexcept;

  std::vector<int> node_of_rank_;
  std::vector<std::vector<int>> ranks_;  // ranks of each node
};

/// Number of bytes that each rank of one node (a member) sends to and receives from each rank in one
/// exchange. Index m * num_ranks + r is for member m (an index in ranks_of) and rank r of the communicator.
struct NodeSizes {
  std::vector<std::int64_t> to;
  std::vector<std::int64_t> from;
};

/// Part of a leader's staging memory, and the rank that fills or receives it.
struct StagedPart {
  int rank = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const StagedPart&, const StagedPart&) = default;
};

/// One rank's part in an exchange between nodes. Each of the three rounds (LeaderRounds) preserves the byte
/// order within a list.
struct LeaderPlan {
  static constexpr int direct = -1;
  /// By rank: the leader on this node that collects the bytes for that rank, or `direct`.
  std::vector<int> sending_leaders;
  /// By rank: the leader on this node that passes on the bytes from that rank, or `direct`.
  std::vector<int> receiving_leaders;
  /// The parts of a leader's staging memory. `collected` and `outgoing` use the same memory; so do `incoming`
  /// and `distributed`. In a message, the bytes for each rank of the receiving node are contiguous, in
  /// ascending order of sender.
  std::vector<StagedPart> collected;    ///< bytes that members of this node send, ordered by final receiver
  std::vector<StagedPart> outgoing;     ///< bytes to send to leaders of other nodes
  std::vector<StagedPart> incoming;     ///< bytes to receive from leaders of other nodes
  std::vector<StagedPart> distributed;  ///< bytes to pass on to members of this node

  /// Returns whether any messages to or from this rank's node go through leaders.
  [[nodiscard]] bool uses_leaders() const noexcept;
};

/// Returns whether messages from one node to another go through the nodes' leaders. `messages[i]` is the
/// number of bytes for the i-th pair of ranks. The result is true if the messages fit in `max_bytes`
/// together, at least two are not empty and, if `mode` is `automatic`, they are small on average; it is false
/// if `mode` is `never`. Both nodes get the same result, since they pass the same numbers.
[[nodiscard]] bool should_use_leaders(NodeAggregation mode, std::span<const std::int64_t> messages,
                                      std::int64_t max_bytes) noexcept;

/// Returns the plan of `rank`, given the sizes of its node, which are ignored if `mode` is `never`. Pure. If
/// the ranks' sizes match pairwise, the sender and the receiver of every message have matching plans. O(ranks
/// of the node x ranks).
[[nodiscard]] LeaderPlan plan_leaders(const NodeLeaders& leaders, int rank, const NodeSizes& sizes,
                                      NodeAggregation mode);

/// The nodes of a communicator, their leaders, and the staging memory of this rank.
class NodeGroup {
 public:
  /// Returns the NodeGroup of `comm`, which is stored with the communicator. The first call is collective
  /// over `comm`.
  [[nodiscard]] static NodeGroup& get(const Communicator& comm);
  /// `nodes[r]` is the lowest rank on rank r's node; `node` contains the ranks of this rank's node. Local.
  NodeGroup(int rank, Communicator node, std::span<const int> nodes);

  [[nodiscard]] const NodeLeaders& leaders() const noexcept { return leaders_; }
  [[nodiscard]] bool is_on_this_node(int rank) const noexcept {
    return leaders_.node_of(rank) == leaders_.node_of(rank_);
  }

  /// Allocates the memory for gather_sizes() and, on leaders, for staging. Does nothing unless there are
  /// several nodes and at least one node has several ranks. The first call is collective over `comm`. Throws
  /// the same error on every rank if a rank runs out of memory.
  void reserve(const Communicator& comm);

  /// Collective over the node: gathers the number of bytes that each of its ranks sends and receives. If a
  /// rank could not make its lists, they count as empty. Precondition: reserve() was called.
  void gather_sizes(const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                    NodeAggregation mode);
  /// Returns the plan for the lists of gather_sizes(). Local.
  [[nodiscard]] LeaderPlan plan(NodeAggregation mode) const;

  /// Staging buffers of leader_staging_bytes bytes each; null unless this rank is a leader. They are in the
  /// shared heap, so members can copy directly from them.
  [[nodiscard]] std::byte* outgoing() const noexcept { return outgoing_.get(); }
  [[nodiscard]] std::byte* incoming() const noexcept { return incoming_.get(); }

 private:
  [[nodiscard]] bool is_leader() const noexcept;
  [[nodiscard]] bool may_use_leaders(NodeAggregation mode) const noexcept {
    return mode != NodeAggregation::never && leaders_.can_aggregate_messages();
  }

  int rank_;
  Communicator node_;
  NodeLeaders leaders_;
  HeapBytes outgoing_;
  HeapBytes incoming_;
  // Number of bytes that this rank sends to each rank, followed by the number that it receives from each
  // rank.
  std::vector<std::int64_t> row_;
  std::vector<std::int64_t> rows_;  // `row_` of every rank of this node
  bool is_reserved_ = false;
};

/// Lists of the three rounds in which bytes go through leaders: inside the sending node, between leaders, and
/// inside the receiving node. Lists are ordered by rank of the communicator. They refer to the memory of the
/// original lists and of the group.
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
  Lists distribute;
};

}  // namespace evenkeel
