#pragma once

#include <optional>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "transport/messages/message_exchange.hpp"
#include "transport/messages/node_aggregation.hpp"
#include "transport/shared/node_memory.hpp"
#include "transport/shared/shared_transfer.hpp"
#include "transport/staged/staged_exchange.hpp"

namespace evenkeel {

/// One round inside nodes: bytes between the ranks of a node, also from a rank to itself, out of shared
/// memory or else in messages. Made ready first, which is local and may throw.
class NodeRound {
 public:
  NodeRound(const NodeGroup& group, int rank, NodeMemory* memory, const std::vector<BlockList>& sends,
            const std::vector<BlockList>& receives, std::int64_t max_bytes);

  /// Collective over the node; throws only when MPI fails.
  void run(const Communicator& comm);
  /// What went wrong on this rank while it ran.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;

 private:
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  std::optional<SharedTransfer> transfer_;
  std::optional<Messages> messages_;
};

/// An exchange as messages over nodes, some of them through leaders.
class NodesExchange {
 public:
  NodesExchange(const NodeGroup& group, const LeaderPlan& plan, int rank, NodeMemory* memory,
                const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                std::int64_t max_bytes);

  MessageTraffic run(const Communicator& comm);
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;

 private:
  /// The rounds of an exchange through leaders, but for the one that is its own.
  struct Led {
    Led(const NodeGroup& group, const LeaderPlan& plan, int rank, NodeMemory* memory,
        const std::vector<BlockList>& sends, const std::vector<BlockList>& receives, std::int64_t max_bytes);
    LeaderRounds rounds;
    NodeRound collect;
    Messages between;
    NodeRound hand_on;
  };

  Messages direct_;
  NodeRound inside_;
  std::optional<Led> led_;
};

/// An exchange in calls of MPI_Alltoallw.
class AlltoallwExchange {
 public:
  AlltoallwExchange(const NodeGroup& group, int rank, const std::vector<BlockList>& sends,
                    const std::vector<BlockList>& receives, std::int64_t max_bytes);

  /// Calls that this rank needs.
  [[nodiscard]] std::int64_t rounds() const noexcept { return rounds_; }
  /// `rounds` is the largest of all ranks.
  MessageTraffic run(const Communicator& comm, std::int64_t rounds);

 private:
  /// Arguments of one call: one whole chunk, or nothing, a rank.
  struct Arguments {
    explicit Arguments(std::size_t ranks) : counts(ranks), displacements(ranks, 0), types(ranks) {}
    void set(const std::vector<Chunks>& sides, std::int64_t round);
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<MPI_Datatype> types;
  };

  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  std::vector<Chunks> outgoing_;
  std::vector<Chunks> incoming_;
  Arguments out_;
  Arguments in_;
  std::int64_t rounds_ = 0;
  MessageTraffic traffic_;
};

/// exchange_messages() in three parts, so that nothing but MPI can fail once bytes travel: made ready, agreed
/// on, run. The lists must stand until all ranks have compared their errors after it.
class PreparedExchange {
 public:
  /// Collective over `comm`. Throws only what all of its ranks throw: what this rank cannot do is kept for
  /// agree(), and `failed` tells that the lists may not be whole.
  PreparedExchange(const Communicator& comm, const std::vector<BlockList>& sends,
                   const std::vector<BlockList>& receives, const TransportSettings& options, bool failed);

  /// Collective over `comm`: throws the error of the lowest rank that has one, `mine` or of making this
  /// ready, on every rank. One all-reduce.
  void agree(const std::optional<ErrorReport>& mine);
  /// Collective over `comm`, after agree(). Throws only when MPI fails.
  MessageTraffic run();

  /// What went wrong on this rank while bytes travelled. Where is_read_by_others(), all ranks must compare
  /// these before any of them changes or frees its bytes.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;
  [[nodiscard]] bool is_read_by_others() const noexcept { return memory_ != nullptr; }

 private:
  Communicator comm_;
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  NodeMemory* memory_ = nullptr;
  GuardedWork work_;
  std::optional<StagedViews> outgoing_;  // of MPI's messages
  std::optional<StagedViews> incoming_;
  std::optional<NodesExchange> nodes_;
  std::optional<AlltoallwExchange> alltoallw_;
  std::optional<StagedExchange> staged_;
  bool all_in_one_call_;
  std::int64_t rounds_ = 0;
};

}  // namespace evenkeel
