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

/// One round of transfers inside nodes, including from each rank to itself: through shared memory if `memory`
/// is not null, otherwise in messages. The constructor is local and may throw.
class NodeRound {
 public:
  NodeRound(const NodeGroup& group, int rank, NodeMemory* memory, const std::vector<BlockList>& sends,
            const std::vector<BlockList>& receives, std::int64_t max_bytes);

  /// Collective over the node. Throws only if communication fails.
  void run(const Communicator& comm);
  /// Returns the error of this rank during run(), or nullopt.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;

 private:
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  std::optional<SharedTransfer> transfer_;
  std::optional<Messages> messages_;
};

/// An exchange that uses point-to-point messages between nodes, some of them through leaders, and a round
/// inside each node.
class NodesExchange {
 public:
  NodesExchange(const NodeGroup& group, const LeaderPlan& plan, int rank, NodeMemory* memory,
                const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                std::int64_t max_bytes);

  MessageTraffic run(const Communicator& comm);
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;

 private:
  /// The three rounds in which bytes go through leaders.
  struct LeaderTransfer {
    LeaderTransfer(const NodeGroup& group, const LeaderPlan& plan, int rank, NodeMemory* memory,
                   const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                   std::int64_t max_bytes);
    LeaderRounds rounds;
    NodeRound collect;
    Messages between;
    NodeRound distribute;
  };

  Messages direct_;
  NodeRound inside_;
  std::optional<LeaderTransfer> leader_transfer_;
};

/// An exchange that uses calls of MPI_Alltoallw.
class AlltoallwExchange {
 public:
  AlltoallwExchange(const NodeGroup& group, int rank, const std::vector<BlockList>& sends,
                    const std::vector<BlockList>& receives, std::int64_t max_bytes);

  /// Returns the number of MPI_Alltoallw calls that this rank needs: the maximum number of chunks that it
  /// sends to or receives from any rank.
  [[nodiscard]] std::int64_t rounds() const noexcept { return rounds_; }
  /// Collective over `comm`. `rounds` is the maximum of rounds() over all ranks.
  MessageTraffic run(const Communicator& comm, std::int64_t rounds);

 private:
  /// Send or receive arguments of one MPI_Alltoallw call: one whole chunk or zero bytes per rank.
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

/// Implements exchange_messages() in three parts: constructor, agree(), run(). After agree(), only failed
/// communication throws; other errors are stored in error(). The lists must remain valid until all ranks have
/// compared these errors.
class PreparedExchange {
 public:
  /// Collective over `comm`. Throws only errors that all its ranks throw; this rank's own error is kept for
  /// agree(). `failed` means that this rank's lists may be incomplete, so they are not prepared.
  PreparedExchange(const Communicator& comm, const std::vector<BlockList>& sends,
                   const std::vector<BlockList>& receives, const TransportSettings& options, bool failed);

  /// Collective over `comm`: throws, on every rank, the error of the lowest rank that has one. A rank's error
  /// is `mine` or, if that is nullopt, the error of its constructor. Makes one all-reduce.
  void agree(const std::optional<ErrorReport>& mine);
  /// Collective over `comm`, after agree(). Throws only if communication fails.
  MessageTraffic run();

  /// Returns the error of this rank during run(), or nullopt. If is_read_by_others(), all ranks must compare
  /// these errors before any of them changes or frees its bytes.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;
  [[nodiscard]] bool is_read_by_others() const noexcept { return memory_ != nullptr; }

 private:
  Communicator comm_;
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  NodeMemory* memory_ = nullptr;
  GuardedWork work_;
  std::optional<StagedViews> outgoing_;  // lists of the bytes that are sent in MPI messages
  std::optional<StagedViews> incoming_;
  std::optional<NodesExchange> nodes_;
  std::optional<AlltoallwExchange> alltoallw_;
  std::optional<StagedExchange> staged_;
  bool uses_alltoallw_;
  std::int64_t rounds_ = 0;
};

}  // namespace evenkeel
