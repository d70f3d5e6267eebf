#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

/// Some of the items of a list as a list of their own.
class PickedItems {
 public:
  PickedItems(BinItems all, std::span<const Item> picked) {
    sizes_.reserve(picked.size());
    for (const Item item : picked) sizes_.push_back(all.sizes[static_cast<std::size_t>(item)]);
    if (all.counts.empty()) return;
    counts_.reserve(picked.size());
    for (const Item item : picked) counts_.push_back(all.count_of(item));
  }

  /// A view of this object.
  [[nodiscard]] BinItems items() const { return {sizes_, counts_}; }

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace evenkeel
