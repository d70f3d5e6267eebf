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

/// Contiguous bytes in a rank's shared heap, or rows there that are looked at through a view.
struct Extent {
  SharedHeap::Place place;
  std::int64_t bytes = 0;  ///< as they travel
  std::int64_t view = -1;  ///< where the view stands, as an offset in the announced file; -1: nowhere
};

/// Where the extents of one list stand, in its owner's heap; a negative number when making them failed. What
/// an owner tells its neighbours.
struct OfferNotice {
  SharedHeap::Place place;
  std::int64_t num_extents = -1;
};

/// Lists of bytes that neighbours may read, with the views that they are to look through. Bytes that do not
/// lie in the shared heap are copied there, as they travel. Stands until it is destroyed.
class SharedOffer {
 public:
  SharedOffer() = default;
  /// Takes the memory that it needs. Throws LimitError when there is none that others can read.
  explicit SharedOffer(std::span<const BlockList* const> lists);

  /// Makes it ready for neighbours, once the lists' bytes are what they shall read.
  void fill() noexcept;

  /// By list.
  [[nodiscard]] std::span<const OfferNotice> announcements() const noexcept { return announcements_; }

 private:
  std::vector<OfferNotice> announcements_;
  BlockList elsewhere_;  // bytes outside the shared heap
  BlockList copies_;     // where they go
  SharedBuffer outbox_;  // the extents, then views, then the bytes from elsewhere
};

/// The extents that rank `rank` announced. Throws IoError when its memory cannot be mapped.
[[nodiscard]] std::vector<Extent> read_extents(NodeMemory& memory, int rank, const OfferNotice& told);
/// The bytes that rank `rank` announced, where they lie in its memory. Throws likewise.
[[nodiscard]] BlockList offered_bytes(NodeMemory& memory, int rank, const OfferNotice& told);

/// What the ranks of a node tell each other in one exchange: where the bytes are that each has for the
/// others. Its memory is taken when it is made; nothing is thrown afterwards but for what connects ranks.
class Notices {
 public:
  /// Local. `to[r]` says whether rank r is told anything, `from[r]` whether it tells. Throws LimitError.
  Notices(std::vector<bool> to, std::vector<bool> from);

  /// Collective over the ranks that tell each other. `mine[r]` is for rank r, and must stand until end(), or
  /// the end of this object.
  void begin(const Communicator& comm, std::span<const OfferNotice> mine);
  /// A rank whose notice has come, each once; nothing when all have.
  [[nodiscard]] std::optional<int> next();
  [[nodiscard]] const OfferNotice& told_by(int rank) const { return told_[static_cast<std::size_t>(rank)]; }
  void end();

 private:
  void begin_messages(const Communicator& comm, std::span<const OfferNotice> mine);
  void exchange_all(const ForeignRanks& ranks, std::span<const OfferNotice> mine);

  std::vector<bool> to_;
  std::vector<bool> from_;
  std::vector<OfferNotice> told_;  // by rank
  // Of MPI.
  OpenRequests sending_{OpenRequests::Kind::others};
  OpenRequests receiving_{OpenRequests::Kind::receives};
  // Of others, which are told all at once.
  std::vector<OfferNotice> outgoing_;
  std::vector<OfferNotice> incoming_;
  std::vector<std::int64_t> outgoing_bytes_;
  std::vector<std::int64_t> incoming_bytes_;
  std::optional<std::size_t> next_;
};

/// The part of one exchange that stays inside nodes. Owners tell each neighbour where in their shared heap
/// its bytes lie, and through which views to look at them; the neighbour copies them straight to where they
/// belong. Bytes that lie elsewhere (small columns, columns from before the heap was in use) are copied to
/// the heap first.
///
/// What takes memory is done when it is made, and may throw there. Nothing is thrown afterwards but for
/// failed MPI calls: what goes wrong is kept in error(). Owners may change or free their bytes after all
/// ranks have compared their errors (fail_together).
class SharedTransfer {
 public:
  /// Local. Both lists must stand until it is over. Throws LimitError where neighbours could not read.
  SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends,
                 const std::vector<BlockList>& receives);

  /// Collective over the ranks of the node: tells neighbours what is there for them, copies what this rank
  /// has for itself, and fetches what neighbours have.
  void run(const Communicator& comm);

  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }

 private:
  void fetch(int rank, const OfferNotice& told, const BlockList& into, std::int64_t total_bytes);

  NodeMemory& memory_;
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  SharedOffer offer_;
  Notices notices_;
  std::optional<ErrorReport> error_;
};

}  // namespace evenkeel
