#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "transport/block_list.hpp"
#include "transport/messages/message_exchange.hpp"
#include "transport/messages/node_aggregation.hpp"
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

/// One side of an exchange in messages, which take bytes from where they lie as they travel: rows that are
/// looked at through a view are copied together for them before, or apart after. Other bytes stay where they
/// are.
class StagedViews {
 public:
  /// Local; takes all memory that it needs. Of the lists between this rank and those that are `wanted`; they
  /// must stand as long as this does.
  StagedViews(const std::vector<BlockList>& lists, const WantedRanks& wanted);
  StagedViews(const StagedViews&) = delete;
  StagedViews& operator=(const StagedViews&) = delete;

  /// The lists, those that are wanted plain.
  [[nodiscard]] const std::vector<BlockList>& lists() const noexcept { return any() ? plain_ : lists_; }

  /// Copies what is sent to where messages take it.
  void gather() const noexcept { viewed_.copy_to(staged_, viewed_.bytes()); }
  /// Copies what has been received to where it belongs.
  void scatter() const noexcept { staged_.copy_to(viewed_, viewed_.bytes()); }

 private:
  [[nodiscard]] bool any() const noexcept { return !viewed_.empty(); }
  void make_plain(BlockList& list, const std::byte*& staging) const;

  const std::vector<BlockList>& lists_;
  BlockList viewed_;  // of all lists that are wanted, what is looked at through a view
  HeapBytes bytes_;
  BlockList staged_;              // the same, as it travels
  std::vector<BlockList> plain_;  // where there is any
};

}  // namespace evenkeel
