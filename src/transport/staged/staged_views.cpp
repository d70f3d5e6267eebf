#include "transport/staged/staged_views.hpp"

#include <utility>

namespace evenkeel {

StagedViews::StagedViews(const std::vector<BlockList>& lists, const WantedRanks& wanted) : lists_(lists) {
  const auto is_staged = [&](std::size_t rank) {
    return !lists[rank].is_plain() && wanted(static_cast<int>(rank));
  };
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (!is_staged(rank)) continue;
    for (const BlockList::Block& block : lists[rank].blocks())
      if (block.view != BlockList::plain) viewed_.add(block, lists[rank].views());
  }
  if (!any()) return;
  const auto size = static_cast<std::size_t>(viewed_.bytes());
  bytes_ = heap_bytes(size);  // whose pages are used again step after step
  staged_.add(bytes_.get(), size);
  plain_ = lists;
  const std::byte* next = bytes_.get();
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (is_staged(rank)) make_plain(plain_[rank], next);
}

void StagedViews::make_plain(BlockList& list, const std::byte*& staging) const {
  BlockList plain;
  for (const BlockList::Block& block : list.blocks()) {
    plain.add(block.view == BlockList::plain ? block.address : staging, block.bytes);
    if (block.view != BlockList::plain) staging += block.bytes;
  }
  list = std::move(plain);
}

}  // namespace evenkeel
