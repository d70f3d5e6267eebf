#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/exchange/block_list.hpp"
#include "exchange/node_memory.hpp"

namespace evenkeel {

/// Contiguous bytes in a rank's shared heap.
struct Extent {
  SharedHeap::Place place;
  std::int64_t bytes = 0;
};

/// Where the extents of one list stand, in its owner's heap; a negative number when making them failed. What
/// an owner tells its neighbours.
struct Announcement {
  SharedHeap::Place place;
  std::int64_t num_extents = -1;
};

/// Lists of bytes, made ready for neighbours to read. Bytes that do not lie in the shared heap are copied
/// there. Stands until it is destroyed.
class SharedOffer {
 public:
  SharedOffer() = default;
  /// Throws LimitError when there is no memory that others can read.
  explicit SharedOffer(std::span<const BlockList* const> lists);

  /// By list.
  [[nodiscard]] std::span<const Announcement> announcements() const noexcept { return announcements_; }

 private:
  std::vector<Announcement> announcements_;
  SharedBuffer outbox_;  // all extents, then the bytes that lay elsewhere
};

/// The extents that rank `rank` announced. Throws IoError when its memory cannot be mapped.
[[nodiscard]] std::vector<Extent> read_extents(NodeMemory& memory, int rank, const Announcement& told);

}  // namespace evenkeel
