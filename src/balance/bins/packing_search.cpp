#include "balance/bins/packing_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/bins/bin_bounds.hpp"
#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

/// A list of items, each given by its rank in descending order of size.
using Ranks = std::vector<std::size_t>;

/// The size and count of an item.
struct BinLoad {
  std::int64_t size = 0;
  std::int64_t count = 0;

  friend bool operator==(const BinLoad&, const BinLoad&) = default;
};

/// A set of items that fills a bin.
struct Completion {
  std::int64_t size = 0;
  std::vector<std::size_t> positions;  ///< positions in Filling::left, the list of remaining items
};

class PackingSearch {
 public:
  /// `falling` contains the items in descending order of size, and of count for equal sizes.
  PackingSearch(std::vector<BinLoad> falling, BinLimits limits, std::int64_t& steps)
      : loads_(std::move(falling)), limits_(limits), steps_(steps) {
    limits_.max_items = std::min(limits.max_items, total_count());
    counts_bind_ = limits_.max_items < max_count_per_bin();
  }

  /// Returns true and sets bins() if a packing into at most k bins was found; false if there is no such
  /// packing or the step limit was reached.
  bool run(std::int64_t k) {
    Ranks all(loads_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return pack(all, k);
  }

  [[nodiscard]] const std::vector<Ranks>& bins() const { return bins_; }

 private:
  /// The state of the search while it lists the sets of items that can fill a bin.
  struct Filling {
    const Ranks& left;               ///< remaining items; the first one is already in the bin
    std::vector<std::int64_t> sums;  ///< sums[i]: total size of the remaining items from position i on
    std::int64_t bins = 0;           ///< number of remaining bins, including this one
    /// Minimum total size of the items in this bin. With less, the other bins could not hold the remaining
    /// items.
    std::int64_t least = 0;
    std::int64_t size = 0;
    std::int64_t count = 0;
    std::vector<std::size_t> taken;   ///< positions in `left` of the chosen items
    std::vector<std::size_t> passed;  ///< positions in `left` of items that were skipped although they fit
    std::vector<Completion> completions;
    bool is_packed = false;
  };

  [[nodiscard]] std::int64_t total_count() const {
    return std::accumulate(loads_.begin(), loads_.end(), std::int64_t{0},
                           [](std::int64_t sum, const BinLoad& load) { return sum + load.count; });
  }

  /// Returns an upper bound on the total count of any bin. If m is the number of smallest items that fit in a
  /// bin together, no bin has more than m items, so the count of a bin is at most the sum of the m largest
  /// counts.
  [[nodiscard]] std::int64_t max_count_per_bin() const {
    std::vector<std::int64_t> counts;
    for (const BinLoad& load : loads_) counts.push_back(load.count);
    std::ranges::sort(counts, std::ranges::greater{});
    std::int64_t room = limits_.max_size;
    std::int64_t most = 0;
    std::size_t fitting = 0;
    for (auto load = loads_.rbegin(); load != loads_.rend() && load->size <= room; ++load) {
      room -= load->size;
      most += counts[fitting++];
    }
    return most;
  }

  [[nodiscard]] const BinLoad& load_at(const Filling& filling, std::size_t position) const {
    return loads_[filling.left[position]];
  }
  [[nodiscard]] std::int64_t size_at(const Filling& filling, std::size_t position) const {
    return load_at(filling, position).size;
  }

  bool pack(const Ranks& left, std::int64_t bins) {
    if (left.empty()) return true;
    steps_ -= static_cast<std::int64_t>(left.size());
    if (steps_ <= 0) return false;
    if (bins == 0 || !may_fit(left, bins)) return false;
    const auto known = failed_.find(left);
    if (known != failed_.end() && known->second >= bins) return false;
    const bool is_packed = pack_with_first_bin(left, bins);
    if (!is_packed && steps_ > 0) failed_[left] = bins;
    return is_packed;
  }

  [[nodiscard]] bool may_fit(const Ranks& left, std::int64_t bins) const {
    std::int64_t count = 0;
    std::vector<std::int64_t> rising;
    rising.reserve(left.size());
    for (auto rank = left.rbegin(); rank != left.rend(); ++rank) {
      rising.push_back(loads_[*rank].size);
      count += loads_[*rank].count;
    }
    if (balance_checks::ceil_div(count, limits_.max_items) > bins) return false;
    return l2_bound(rising, limits_.max_size) <= bins;
  }

  bool pack_with_first_bin(const Ranks& left, std::int64_t bins) {
    const BinLoad& first = loads_[left.front()];
    Filling filling{
        left, std::vector<std::int64_t>(left.size() + 1, 0), bins, 0, first.size, first.count, {0}, {}, {},
        false};
    for (std::size_t i = left.size(); i-- > 0;) filling.sums[i] = filling.sums[i + 1] + loads_[left[i]].size;
    if (bins - 1 <= filling.sums[0] / std::max<std::int64_t>(limits_.max_size, 1))
      filling.least = filling.sums[0] - (bins - 1) * limits_.max_size;
    list_completions(filling, 1);
    if (!filling.is_packed) try_completions(filling);
    return filling.is_packed;
  }

  /// Lists the sets that extend the chosen items by some of the items at or after `position`, large items
  /// first.
  void list_completions(Filling& filling, std::size_t position) {
    const std::size_t num_passed = filling.passed.size();
    for (; !filling.is_packed && --steps_ > 0; position = skip_equal_items(filling, position)) {
      position = first_fitting_position(filling, position);
      if (position == filling.left.size()) {
        if (filling.size >= filling.least && !is_dominated(filling)) add_completion(filling);
        break;
      }
      if (filling.size + filling.sums[position] < min_useful_size(filling)) break;
      filling.taken.push_back(position);
      filling.size += load_at(filling, position).size;
      filling.count += load_at(filling, position).count;
      list_completions(filling, position + 1);
      filling.size -= load_at(filling, position).size;
      filling.count -= load_at(filling, position).count;
      filling.taken.pop_back();
    }
    filling.passed.resize(num_passed);
  }

  [[nodiscard]] bool is_full(const Filling& filling) const { return filling.count == limits_.max_items; }

  /// Returns the first position >= `position` whose item fits; if no item fits, the number of remaining
  /// items.
  [[nodiscard]] std::size_t first_fitting_position(const Filling& filling, std::size_t position) const {
    if (is_full(filling)) return filling.left.size();
    const std::int64_t room = limits_.max_size - filling.size;
    const auto by_size =
        std::partition_point(filling.left.begin() + static_cast<std::ptrdiff_t>(position), filling.left.end(),
                             [&](std::size_t rank) { return loads_[rank].size > room; });
    const std::int64_t count_room = limits_.max_items - filling.count;
    const auto fits = std::find_if(by_size, filling.left.end(),
                                   [&](std::size_t rank) { return loads_[rank].count <= count_room; });
    return static_cast<std::size_t>(fits - filling.left.begin());
  }

  /// Skips the item at `position` and all following items of the same size and count: equal items are
  /// interchangeable, so they are only chosen in order. Returns the next position.
  [[nodiscard]] std::size_t skip_equal_items(Filling& filling, std::size_t position) const {
    filling.passed.push_back(position);
    std::size_t next = position + 1;
    while (next < filling.left.size() && load_at(filling, next) == load_at(filling, position)) ++next;
    return next;
  }

  /// Returns the minimum size of a set that is worth trying. If counts cannot bind, a smaller set is
  /// dominated: the last skipped item, which is the smallest one, could be added to it.
  [[nodiscard]] std::int64_t min_useful_size(const Filling& filling) const {
    if (counts_bind_ || filling.passed.empty()) return filling.least;
    return std::max(filling.least, limits_.max_size - size_at(filling, filling.passed.back()) + 1);
  }

  /// Returns whether the size and the count of any skipped item are between `least` and `most`, inclusive.
  [[nodiscard]] bool has_skipped_item_between(const Filling& filling, const BinLoad& least,
                                              const BinLoad& most) const {
    const auto first = std::ranges::partition_point(
        filling.passed, [&](std::size_t position) { return size_at(filling, position) > most.size; });
    const auto end = std::find_if(first, filling.passed.end(), [&](std::size_t position) {
      return size_at(filling, position) < least.size;
    });
    return std::any_of(first, end, [&](std::size_t position) {
      const std::int64_t count = load_at(filling, position).count;
      return count >= least.count && count <= most.count;
    });
  }

  /// Returns whether the chosen set is dominated: a skipped item could be added to the set, or could replace
  /// one or two smaller items. Any packing that uses the set can then be turned into one that uses the better
  /// set.
  [[nodiscard]] bool is_dominated(const Filling& filling) {
    const BinLoad room{limits_.max_size - filling.size, limits_.max_items - filling.count};
    if (has_skipped_item_between(filling, {}, room)) return true;
    for (std::size_t i = 1; i < filling.taken.size(); ++i) {
      const BinLoad& one = load_at(filling, filling.taken[i]);
      if (has_skipped_item_between(filling, {one.size + 1, one.count},
                                   {one.size + room.size, one.count + room.count}))
        return true;
      if (counts_bind_) continue;
      steps_ -= static_cast<std::int64_t>(filling.taken.size() - i);
      for (std::size_t j = i + 1; j < filling.taken.size(); ++j) {
        const std::int64_t both = one.size + size_at(filling, filling.taken[j]);
        if (both > one.size &&
            has_skipped_item_between(filling, {both, 0}, {both + room.size, limits_.max_items}))
          return true;
      }
    }
    return false;
  }

  void add_completion(Filling& filling) {
    filling.completions.push_back({filling.size, filling.taken});
    constexpr std::size_t at_a_time = 4;
    if (filling.completions.size() == at_a_time) try_completions(filling);
  }

  /// Continues the search with each of the sets listed so far, fullest set first. Only a few sets are
  /// collected at a time, so a good set is tried early even if there are very many sets.
  void try_completions(Filling& filling) {
    std::vector<Completion> completions = std::move(filling.completions);
    filling.completions.clear();
    std::ranges::stable_sort(completions, std::ranges::greater{}, &Completion::size);
    for (const Completion& completion : completions) {
      Ranks bin;
      Ranks left;
      std::size_t next = 0;
      for (std::size_t position = 0; position < filling.left.size(); ++position) {
        const bool is_taken = next < completion.positions.size() && completion.positions[next] == position;
        (is_taken ? bin : left).push_back(filling.left[position]);
        next += is_taken ? 1 : 0;
      }
      bins_.push_back(std::move(bin));
      filling.is_packed = pack(left, filling.bins - 1);
      if (filling.is_packed) return;
      bins_.pop_back();
      if (steps_ <= 0) return;
    }
  }

  std::vector<BinLoad> loads_;
  BinLimits limits_;
  bool counts_bind_ = false;  ///< whether a bin may reach its count limit before its size limit
  std::int64_t& steps_;
  std::vector<Ranks> bins_;
  /// Lists of remaining items, each with a number of bins into which the items do not fit.
  std::map<Ranks, std::int64_t> failed_;
};

bool each_fits_alone(const BinItems& items, const BinLimits& limits) {
  const auto n = static_cast<Item>(items.sizes.size());
  for (Item item = 0; item < n; ++item) {
    if (items.sizes[static_cast<std::size_t>(item)] > limits.max_size) return false;
    if (items.count_of(item) > limits.max_items) return false;
  }
  return true;
}

}  // namespace

PackingSearchResult search_packing(BinItems items, BinLimits limits, std::int64_t k, std::int64_t& steps) {
  EVENKEEL_PRECONDITION(thorough, each_fits_alone(items, limits), items.sizes.size(), limits.max_size,
                        limits.max_items);
  std::vector<CostedItem> order = descending_items_smaller_first(items.sizes);
  if (!items.counts.empty()) {
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](const CostedItem& entry) {
      return std::pair(entry.cost, items.count_of(entry.item));
    });
  }
  std::vector<BinLoad> falling;
  falling.reserve(order.size());
  for (const CostedItem& entry : order) falling.push_back({entry.cost, items.count_of(entry.item)});
  PackingSearch search(std::move(falling), limits, steps);
  if (!search.run(k)) return {std::nullopt, steps > 0};
  std::vector<std::vector<Item>> bins;
  for (const Ranks& ranks : search.bins()) {
    std::vector<Item>& bin = bins.emplace_back();
    for (const std::size_t rank : ranks) bin.push_back(order[rank].item);
  }
  return {Partition{bins}, false};
}

}  // namespace evenkeel
