#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace evenkeel
