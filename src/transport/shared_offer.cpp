#include "transport/shared_offer.hpp"

#include <cstring>

namespace evenkeel {

SharedOffer::SharedOffer(std::span<const BlockList* const> lists) {
  const SharedHeap& heap = SharedHeap::of_process();
  std::vector<Extent> extents;
  std::size_t staged = 0;  // bytes of the blocks elsewhere
  for (const BlockList* list : lists) {
    const auto first = extents.size();
    bool follows_staged = false;
    for (const BlockList::Block& block : list->blocks()) {
      const auto bytes = static_cast<std::int64_t>(block.bytes);
      const std::optional<SharedHeap::Place> place = heap.find(block.address, block.bytes);
      if (place) {
        extents.push_back({*place, bytes});
      } else {
        if (!follows_staged) extents.push_back({{-1, static_cast<std::int64_t>(staged)}, 0});
        extents.back().bytes += bytes;
        elsewhere_.push_back(block);
        staged += block.bytes;
      }
      follows_staged = !place;
    }
    announcements_.push_back({{-1, static_cast<std::int64_t>(first * sizeof(Extent))},
                              static_cast<std::int64_t>(extents.size() - first)});
  }
  if (extents.empty()) return;

  list_bytes_ = extents.size() * sizeof(Extent);
  outbox_ = SharedBuffer(list_bytes_ + staged);
  const SharedHeap::Place& base = outbox_.place();
  for (OfferNotice& told : announcements_) told.place = {base.file, base.offset + told.place.offset};
  for (Extent& extent : extents) {
    if (extent.place.file >= 0) continue;
    extent.place = {base.file, base.offset + static_cast<std::int64_t>(list_bytes_) + extent.place.offset};
  }
  std::memcpy(outbox_.data(), extents.data(), list_bytes_);
}

void SharedOffer::fill() noexcept {
  std::byte* to = outbox_.data() + list_bytes_;
  for (const BlockList::Block& block : elsewhere_) {
    std::memcpy(to, block.address, block.bytes);
    to += block.bytes;
  }
}

std::vector<Extent> read_extents(NodeMemory& memory, int rank, const OfferNotice& told) {
  std::vector<Extent> extents(static_cast<std::size_t>(told.num_extents));
  if (extents.empty()) return extents;
  const std::size_t bytes = extents.size() * sizeof(Extent);
  std::memcpy(extents.data(), memory.view(rank, told.place, bytes).data(), bytes);
  return extents;
}

}  // namespace evenkeel
