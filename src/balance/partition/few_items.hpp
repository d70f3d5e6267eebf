#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// A list of items that takes no memory of its own while they are few: the lists of most micro-batches, of
/// which a step has as many as it has samples, or half of them.
class FewItems {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return are_few() ? num_few_ : many_.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] Item* begin() noexcept { return are_few() ? few_.data() : many_.data(); }
  [[nodiscard]] Item* end() noexcept { return begin() + size(); }
  [[nodiscard]] const Item* begin() const noexcept { return are_few() ? few_.data() : many_.data(); }
  [[nodiscard]] const Item* end() const noexcept { return begin() + size(); }

  void push_back(Item item) {
    if (are_few() && num_few_ < few_.size()) {
      few_[num_few_++] = item;
      return;
    }
    if (are_few()) many_.assign(few_.begin(), few_.end());
    many_.push_back(item);
  }

 private:
  [[nodiscard]] bool are_few() const noexcept { return many_.empty(); }

  std::array<Item, 4> few_{};  // the first num_few_ of them, while they are few
  std::size_t num_few_ = 0;
  std::vector<Item> many_;  // all, once they are not
};

}  // namespace evenkeel
