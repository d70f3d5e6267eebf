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

/// Most memory that a rank stages for other nodes, once for what leaves its node and once for what comes in.
inline constexpr std::int64_t leader_staging_bytes = std::int64_t{8} << 20;

/// The nodes of a communicator's ranks, numbered in the order of their lowest ranks, and who leads: for each
/// other node one rank collects what its node sends there, and receives what comes from there. A node's ranks
/// take turns over the other nodes.
class NodeLeaders {
 public:
  /// `nodes[r]` is the lowest rank on rank r's node.
  explicit NodeLeaders(std::span<const int> nodes);

  [[nodiscard]] int num_ranks() const noexcept { return static_cast<int>(node_of_rank_.size()); }
  [[nodiscard]] int num_nodes() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int node_of(int rank) const noexcept { return node_of_rank_[static_cast<std::size_t>(rank)]; }
  /// In rising order.
  [[nodiscard]] std::span<const int> ranks_of(int node) const noexcept {
    return ranks_[static_cast<std::size_t>(node)];
  }

  /// The rank of `node` that leads its traffic with `other`, which is another node.
  [[nodiscard]] int leader(int node, int other) const noexcept;
  /// Most bytes from `node` to `other` that fit the memory of both their leaders, whatever else these lead.
  [[nodiscard]] std::int64_t most_bytes(int node, int other) const noexcept;
  /// Whether any node has several ranks, and another node to send to.
  [[nodiscard]] bool any_pair_shares_messages() const noexcept;

 private:
  [[nodiscard]] std::int64_t most_led(int node) const noexcept;  // other nodes, by one rank

  std::vector<int> node_of_rank_;
  std::vector<std::vector<int>> ranks_;  // by node
};

/// Bytes that the ranks of one node, its members, send and receive in one exchange: of member m (a place in
/// ranks_of) and world rank r at m * num_ranks + r.
struct NodeSizes {
  std::vector<std::int64_t> to;
  std::vector<std::int64_t> from;
};

/// Part of a leader's staging memory, and the rank that fills it or gets it.
struct StagedPart {
  int rank = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const StagedPart&, const StagedPart&) = default;
};

/// How one rank takes part in an exchange between nodes. Bytes of one list keep their order on each leg.
struct LeaderPlan {
  static constexpr int direct = -1;
  std::vector<int> send_by;     ///< by rank: the leader of this rank's node that takes its bytes, or direct
  std::vector<int> receive_by;  ///< by rank: the leader of this rank's node that hands them on, or direct
  /// Of a leader, `outgoing` in one staging memory and `incoming` in another. A message holds what each rank
  /// of the receiving node gets in one piece, in it senders in rising order.
  std::vector<StagedPart> collected;  ///< outgoing, from the members, each in the order of its receivers
  std::vector<StagedPart> outgoing;   ///< to other nodes' leaders
  std::vector<StagedPart> incoming;   ///< from other nodes' leaders
  std::vector<StagedPart> handed_on;  ///< incoming, to the members

  /// Whether any bytes of this rank or of those it leads for go through leaders.
  [[nodiscard]] bool any() const noexcept;
};

/// Whether one node's messages to another, `messages[i]` bytes between the ranks of pair i, go through their
/// leaders: they fit `most_bytes`, at least two have any bytes, and those are small in the mean unless `mode`
/// is always. Both nodes find the same, since they see the same bytes.
[[nodiscard]] bool go_through_leaders(NodeAggregation mode, std::span<const std::int64_t> messages,
                                      std::int64_t most_bytes) noexcept;

/// The plan of `rank` from the sizes of its node, which are not looked at when `mode` is never. Pure, the
/// same on both sides of every message if the ranks' sizes match pairwise. O(ranks of the node x ranks).
[[nodiscard]] LeaderPlan plan_leaders(const NodeLeaders& leaders, int rank, const NodeSizes& sizes,
                                      NodeAggregation mode);

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
