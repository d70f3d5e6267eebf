#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/mpi_call.hpp"
#include "transport/block_list.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

/// A run of bytes in a rank's shared heap: either contiguous bytes, or rows that are read through a view.
struct Extent {
  SharedHeap::Place place;
  std::int64_t bytes = 0;  ///< number of transferred bytes, after the view is applied
  /// Offset of the view in the memory file that holds the extents (OfferNotice::place); -1 if the bytes are
  /// contiguous.
  std::int64_t view = -1;
};

/// Message from an owner to a neighbor: the place, in the owner's heap, of the extents of one list, and the
/// number of extents. The number is negative if the owner failed to make them.
struct OfferNotice {
  SharedHeap::Place place;
  std::int64_t num_extents = -1;
};

/// Lists of bytes that neighbors may read, together with their views. Bytes that are not in the shared heap
/// are copied there, in the form in which they are transferred. Neighbors may read the bytes until this
/// object is destroyed.
class SharedOffer {
 public:
  SharedOffer() = default;
  /// Allocates all memory that the offer needs. Throws LimitError if the heap cannot provide memory that
  /// neighbors can read.
  explicit SharedOffer(std::span<const BlockList* const> lists);

  /// Copies the bytes that are outside the shared heap into it. Call this when the lists' bytes have their
  /// final values. Neighbors may read only after that.
  void fill() noexcept;

  /// Returns one notice per list.
  [[nodiscard]] std::span<const OfferNotice> notices() const noexcept { return announcements_; }

 private:
  std::vector<OfferNotice> announcements_;
  BlockList elsewhere_;  // blocks outside the shared heap
  BlockList copies_;     // destination of `elsewhere_` in `outbox_`
  SharedBuffer outbox_;  // holds the extents, then the views, then the copied bytes
};

/// Returns the extents that rank `rank` announced. Throws IoError if its memory cannot be mapped.
[[nodiscard]] std::vector<Extent> read_extents(NodeMemory& memory, int rank, const OfferNotice& notice);
/// Returns the bytes that rank `rank` announced, as blocks in its mapped memory. Throws IoError if its memory
/// cannot be mapped.
[[nodiscard]] BlockList offered_bytes(NodeMemory& memory, int rank, const OfferNotice& notice);

/// Exchanges the notices of one exchange: sends an OfferNotice to each neighbor that gets bytes from this
/// rank, and receives one from each neighbor from which this rank gets bytes. The constructor allocates all
/// memory. After that, only a failure of the communication itself throws.
class Notices {
 public:
  /// Sends a notice to each rank r with `to[r]`, and expects a notice from each rank r with `from[r]`. Local.
  /// Throws LimitError if MPI cannot count the notices.
  Notices(std::vector<bool> to, std::vector<bool> from);

  /// Starts the exchange. Collective over the ranks that exchange notices or, if MPI does not connect the
  /// ranks, over `comm`. `mine[r]` goes to rank r, and must remain valid and unchanged until end() returns or
  /// this object is destroyed.
  void begin(const Communicator& comm, std::span<const OfferNotice> mine);
  /// Waits for the next notice and returns the rank that sent it. Returns nullopt after the last notice.
  [[nodiscard]] std::optional<int> next();
  [[nodiscard]] const OfferNotice& notice_from(int rank) const {
    return received_[static_cast<std::size_t>(rank)];
  }
  /// Waits until this rank's notices have been sent.
  void end();

 private:
  void begin_messages(const Communicator& comm, std::span<const OfferNotice> mine);
  void exchange_all(const NonMpiRanks& ranks, std::span<const OfferNotice> mine);

  std::vector<bool> to_;
  std::vector<bool> from_;
  std::vector<OfferNotice> received_;  // received notices, by sending rank
  // Used if ranks exchange notices over MPI.
  OpenRequests sending_{OpenRequests::Kind::others};
  OpenRequests receiving_{OpenRequests::Kind::receives};
  // Used with NonMpiRanks, which send all notices with a single call.
  std::vector<OfferNotice> outgoing_;
  std::vector<OfferNotice> incoming_;
  std::vector<std::int64_t> outgoing_bytes_;
  std::vector<std::int64_t> incoming_bytes_;
  std::optional<std::size_t> next_;
};

/// The part of an exchange that stays inside a node and uses shared memory:
///
/// 1. Each owner copies bytes that are outside its shared heap (small columns, columns allocated before the
///    heap was in use) into the heap.
/// 2. The owner sends each neighbor the locations of the bytes for that neighbor, and their views.
/// 3. The neighbor copies the bytes from the owner's heap directly to their destinations.
///
/// The constructor allocates all memory and may throw. After that, only failed communication throws; other
/// errors are stored in error(). Owners may change or free their bytes only after all ranks have compared
/// these errors (fail_together).
class SharedTransfer {
 public:
  /// Local. `sends` and `receives` must outlive the transfer. Throws LimitError if the heap cannot provide
  /// memory that neighbors can read.
  SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends,
                 const std::vector<BlockList>& receives);

  /// Collective over the ranks of the node or, if MPI does not connect the ranks, over `comm`: announces this
  /// rank's bytes to its neighbors, copies the bytes that this rank sends itself, and copies the bytes that
  /// neighbors announced.
  void run(const Communicator& comm);

  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }

 private:
  void fetch(int rank, const OfferNotice& notice, const BlockList& into, std::int64_t total_bytes);

  NodeMemory& memory_;
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  SharedOffer offer_;
  Notices notices_;
  std::optional<ErrorReport> error_;
};

}  // namespace evenkeel
