#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/block_list.hpp"
#include "transport/node_memory.hpp"

namespace evenkeel {

/// Contiguous bytes in a rank's shared heap.
struct Extent {
  SharedHeap::Place place;
  std::int64_t bytes = 0;
};

/// Where the extents of one list stand, in its owner's heap; a negative number when making them failed. What
/// an owner tells its neighbours.
struct OfferNotice {
  SharedHeap::Place place;
  std::int64_t num_extents = -1;
};

/// Lists of bytes that neighbours may read. Bytes that do not lie in the shared heap are copied there. Stands
/// until it is destroyed.
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
  std::vector<BlockList::Block> elsewhere_;  // bytes outside the shared heap
  std::size_t list_bytes_ = 0;               // of all extents
  SharedBuffer outbox_;                      // the extents, then the bytes from elsewhere
};

/// The extents that rank `rank` announced. Throws IoError when its memory cannot be mapped.
[[nodiscard]] std::vector<Extent> read_extents(NodeMemory& memory, int rank, const OfferNotice& told);

}  // namespace evenkeel
