#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "balance/context/levels.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// A list of items that does not allocate memory for up to four items. Most micro-batches have short lists,
/// and a step may have as many micro-batches as samples.
class ItemList {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return is_inline() ? num_few_ : many_.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] Item* begin() noexcept { return is_inline() ? few_.data() : many_.data(); }
  [[nodiscard]] Item* end() noexcept { return begin() + size(); }
  [[nodiscard]] const Item* begin() const noexcept { return is_inline() ? few_.data() : many_.data(); }
  [[nodiscard]] const Item* end() const noexcept { return begin() + size(); }

  void push_back(Item item) {
    if (is_inline() && num_few_ < few_.size()) {
      few_[num_few_++] = item;
      return;
    }
    if (is_inline()) many_.assign(few_.begin(), few_.end());
    many_.push_back(item);
  }

 private:
  [[nodiscard]] bool is_inline() const noexcept { return many_.empty(); }

  // The first num_few_ elements are the items, unless `many_` contains them.
  std::array<Item, 4> few_{};
  std::size_t num_few_ = 0;
  std::vector<Item> many_;  // all items if there are more than four; otherwise empty
};

}  // namespace evenkeel

namespace evenkeel::context {

/// A micro-batch under construction. Ranks first .. first + levels.size(level) - 1 run it.
struct OpenTask {
  std::int64_t first = 0;
  int level = 0;
  std::int64_t wave = -1;
  ContextWork work{};
  std::int64_t used = 0;   ///< number of aligned tokens of the items
  std::int64_t count = 0;  ///< number of samples of the items
  Cost time = 0;
  ItemList items{};

  [[nodiscard]] bool has_room_for(Item item, const Levels& levels) const {
    return has_room_for(levels.aligned_tokens(item, level), levels.problem().count_of(item), levels);
  }
  /// Returns whether there is room for an item with this number of tokens (aligned for this level) and
  /// samples.
  [[nodiscard]] bool has_room_for(std::int64_t tokens, std::int64_t samples, const Levels& levels) const {
    return tokens <= levels.cap(level) - used && samples <= levels.problem().limits.max_items - count;
  }
  void add(Item item, const Levels& levels) {
    add(item, levels.aligned_tokens(item, level), levels.problem().count_of(item), levels);
  }
  /// Adds an item with this number of tokens (aligned for this level) and samples.
  void add(Item item, std::int64_t tokens, std::int64_t samples, const Levels& levels) {
    work += levels.work(item);
    used += tokens;
    count += samples;
    time = levels.time_at(work, level, first);
    items.push_back(item);
  }
};

/// Returns a schedule of the tasks in their order, each with its items in ascending order. Omits tasks
/// without items. Leaves Schedule::waves and Schedule::end at 0.
[[nodiscard]] Schedule make_schedule(std::vector<OpenTask> tasks, const Levels& levels);

}  // namespace evenkeel::context
