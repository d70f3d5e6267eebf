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

/// An exchange between ranks that are not connected by MPI. All bytes are packed into one buffer, sent with
/// one call of NonMpiRanks::all_to_all, and unpacked. If shared memory is used, bytes inside a node are not
/// sent this way; instead, a second all_to_all exchanges the notices that announce them.
class StagedExchange {
 public:
  /// Local; allocates all memory that the exchange needs. The lists must outlive the exchange.
  StagedExchange(const NodeGroup& group, int rank, NodeMemory* memory, const std::vector<BlockList>& sends,
                 const std::vector<BlockList>& receives);

  /// Collective over `comm`. Throws only if the communication between its ranks fails.
  MessageTraffic run(const Communicator& comm);
  /// Returns the error of this rank during run(), or nullopt.
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept;

 private:
  /// Staging buffer for one direction. It holds the bytes of each rank for which `is_sent` is true,
  /// contiguous and in ascending order of ranks.
  struct Staging {
    Staging(const std::vector<BlockList>& lists, const std::vector<bool>& is_sent);
    [[nodiscard]] std::span<std::byte> buffer() const noexcept { return {bytes.get(), size}; }
    /// Returns each rank's part of the buffer.
    [[nodiscard]] std::vector<BlockList> blocks_by_rank() const;
    std::vector<std::int64_t> bytes_of;
    HeapBytes bytes;
    std::size_t size = 0;
  };

  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  std::vector<bool> is_sent_;  // by rank: whether bytes to and from that rank go through all_to_all
  Staging out_;
  Staging in_;
  std::vector<BlockList> out_places_;
  std::vector<BlockList> in_places_;
  std::optional<SharedTransfer> transfer_;
  MessageTraffic traffic_;
};

/// The send lists or the receive lists of an exchange that uses MPI messages. MPI datatypes can only describe
/// plain bytes, so rows with a view are staged: gather() copies them into plain memory before sending, and
/// scatter() copies them out after receiving. Other bytes are used in place.
class StagedViews {
 public:
  /// Local; allocates all memory that staging needs. Stages the lists of the ranks for which `wanted` returns
  /// true. `lists` must outlive this object.
  StagedViews(const std::vector<BlockList>& lists, const WantedRanks& wanted);
  StagedViews(const StagedViews&) = delete;
  StagedViews& operator=(const StagedViews&) = delete;

  /// Returns the lists to use in messages. The lists of the `wanted` ranks are plain.
  [[nodiscard]] const std::vector<BlockList>& lists() const noexcept {
    return has_viewed_blocks() ? plain_ : lists_;
  }

  /// Copies the rows that have a view into the staging memory. Call this before sending.
  void gather() const noexcept { viewed_.copy_to(staged_, viewed_.bytes()); }
  /// Copies staged bytes to their rows. Call this after receiving.
  void scatter() const noexcept { staged_.copy_to(viewed_, viewed_.bytes()); }

 private:
  [[nodiscard]] bool has_viewed_blocks() const noexcept { return !viewed_.empty(); }
  void make_plain(BlockList& list, const std::byte*& staging) const;

  const std::vector<BlockList>& lists_;
  BlockList viewed_;  // the blocks in the `wanted` ranks' lists that have a view, concatenated
  HeapBytes bytes_;
  BlockList staged_;  // staging memory for `viewed_`, in the transfer format
  // `lists_` with each viewed block of the `wanted` ranks replaced by its staging memory; empty if nothing is
  // staged
  std::vector<BlockList> plain_;
};

}  // namespace evenkeel
