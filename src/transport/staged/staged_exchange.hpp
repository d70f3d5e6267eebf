#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "transport/messages/leader_rounds.hpp"
#include "transport/messages/message_exchange.hpp"
#include "transport/shared/node_memory.hpp"
#include "transport/shared/shared_transfer.hpp"

namespace evenkeel {

/// An exchange over ranks that MPI does not connect, in one call of ForeignRanks::all_to_all: bytes are
/// copied together before it and apart after it. Those between ranks of a node go through shared memory where
/// there is any, with a second call that tells where they are.
class StagedExchange {
 public:
  /// Local; takes all memory that it needs. The lists must stand until it is over.
  StagedExchange(const NodeGroup& group, int rank, NodeMemory* memory, const std::vector<BlockList>& sends,
                 const std::vector<BlockList>& receives);

  /// Collective over `comm`; throws only when what connects its ranks fails.
  MessageTraffic run(const Communicator& comm);
  /// What went wrong on this rank while it ran.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;

 private:
  /// One direction: the lists that are sent, by rank, contiguous.
  struct Staging {
    Staging(const std::vector<BlockList>& lists, const std::vector<bool>& is_sent);
    [[nodiscard]] std::span<std::byte> all() const noexcept { return {bytes.get(), size}; }
    /// Each rank's place in it.
    [[nodiscard]] std::vector<BlockList> places() const;
    std::vector<std::int64_t> bytes_of;
    HeapBytes bytes;
    std::size_t size = 0;
  };

  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  std::vector<bool> is_sent_;  // by rank
  Staging out_;
  Staging in_;
  std::vector<BlockList> out_places_;
  std::vector<BlockList> in_places_;
  std::optional<SharedTransfer> transfer_;
  MessageTraffic traffic_;
};

}  // namespace evenkeel
