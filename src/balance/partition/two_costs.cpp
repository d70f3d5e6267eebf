#include "balance/partition/two_costs.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/partition/automatic.hpp"
#include "balance/quality.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// To even out the sums of the second cost (CostPair::second), the largest sum of the first cost may increase
/// by a fraction of 1 / one_in.
constexpr Cost one_in = 512;

Cost largest_sum(const Partition& partition, std::span<const Cost> costs) {
  return std::ranges::max(group_sums(partition, costs));
}

/// The two costs of an item, or their sums in a group: the cost that is balanced first, and the other one.
struct CostPair {
  Cost first = 0;
  Cost second = 0;
};

struct TwoCostItem {
  CostPair costs;
  Item item = 0;

  [[nodiscard]] auto key() const { return std::pair(costs.first, item); }
};

struct TwoCostGroup {
  CostPair sums;
  std::vector<TwoCostItem> items;  ///< in ascending order of (costs.first, item)

  /// Appends an item. Call sort() before relying on the order of items.
  void append(const TwoCostItem& entry) {
    items.push_back(entry);
    sums = {sums.first + entry.costs.first, sums.second + entry.costs.second};
  }
  void sort() { std::ranges::sort(items, {}, &TwoCostItem::key); }
  void insert_sorted(const TwoCostItem& entry) {
    items.insert(std::ranges::lower_bound(items, entry.key(), {}, &TwoCostItem::key), entry);
    sums = {sums.first + entry.costs.first, sums.second + entry.costs.second};
  }
  TwoCostItem remove_item(std::size_t position) {
    const TwoCostItem entry = items[position];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(position));
    sums = {sums.first - entry.costs.first, sums.second - entry.costs.second};
    return entry;
  }
};

/// Positions in the lists of two groups: item `given` leaves one group, and item `taken`, if set, replaces
/// it.
struct Swap {
  std::size_t given = 0;
  std::optional<std::size_t> taken;
};

/// Searches for an exchange between two groups that makes their sums of the second cost more equal, and keeps
/// both sums of the first cost within `allowed`. `from` is the group with the largest sum of the second cost.
/// Stops at an exchange that makes the groups nearly equal, or after a number of pairs: in long lists, the
/// best of some pairs is good enough, since more exchanges follow.
class SwapSearch {
 public:
  SwapSearch(const TwoCostGroup& from, const TwoCostGroup& into, Cost allowed, std::int64_t max_examined)
      : from_(from),
        into_(into),
        most_in_(allowed - into.sums.first),
        most_out_(allowed - from.sums.first),
        max_examined_(max_examined),
        behind_(from.sums.second - into.sums.second),
        distance_(behind_) {}

  [[nodiscard]] std::optional<Swap> run() {
    for (std::size_t given = 0; given < from_.items.size() && !is_over(); ++given) {
      ++num_examined_;
      const CostPair& costs = from_.items[given].costs;
      if (costs.first <= most_in_) offer(costs.second, {given, std::nullopt});
      auto taken = std::ranges::lower_bound(into_.items, costs.first - most_in_, {}, first_cost);
      for (; taken != into_.items.end() && first_cost(*taken) <= costs.first + most_out_ && !is_over();
           ++taken) {
        ++num_examined_;
        offer(costs.second - taken->costs.second,
              {given, static_cast<std::size_t>(taken - into_.items.begin())});
      }
    }
    return best_;
  }
  [[nodiscard]] std::int64_t num_examined() const noexcept { return num_examined_; }

 private:
  static Cost first_cost(const TwoCostItem& entry) { return entry.costs.first; }
  [[nodiscard]] bool is_over() const {
    constexpr Cost near = 64;
    constexpr std::int64_t enough = 512;
    if (num_examined_ >= max_examined_ || distance_ <= behind_ / near) return true;
    return best_ && num_examined_ >= enough;
  }

  /// Considers an exchange that moves `shift` of the second cost. The ideal amount is half of the difference
  /// between the groups' sums.
  void offer(Cost shift, const Swap& swap) {
    if (shift <= 0 || shift >= behind_) return;
    const Cost distance = shift > behind_ / 2 ? 2 * shift - behind_ : behind_ - 2 * shift;
    if (distance >= distance_) return;
    distance_ = distance;
    best_ = swap;
  }

  const TwoCostGroup& from_;
  const TwoCostGroup& into_;
  Cost most_in_;   ///< maximum amount of the first cost that `into` may gain
  Cost most_out_;  ///< maximum amount of the first cost that `from` may gain
  std::int64_t max_examined_;
  Cost behind_;    ///< sum of the second cost in `from` minus that in `into`
  Cost distance_;  ///< twice the difference between the best exchange's shift and the ideal one
  std::int64_t num_examined_ = 0;
  std::optional<Swap> best_;
};

class TwoCostGroups {
 public:
  TwoCostGroups(const Partition& start, std::span<const Cost> first, std::span<const Cost> second)
      : groups_(static_cast<std::size_t>(start.size())) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const Item item : start[static_cast<std::int64_t>(g)]) {
        const auto i = static_cast<std::size_t>(item);
        groups_[g].append({{first[i], second[i]}, item});
      }
      groups_[g].sort();
      allowed_ = std::max(allowed_, groups_[g].sums.first);
      by_second_.emplace(groups_[g].sums.second, g);
    }
    allowed_ += allowed_ / one_in;
  }

  void balance_second_cost(Cost bound) {
    std::int64_t budget = 1 << 16;
    for (const TwoCostGroup& group : groups_) budget += 256 * (1 + std::ssize(group.items));
    while (by_second_.rbegin()->first > bound && budget > 0 && improve_fullest_group(budget)) {
    }
  }

  [[nodiscard]] Partition result() const {
    std::vector<std::vector<Item>> items(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g)
      std::ranges::transform(groups_[g].items, std::back_inserter(items[g]), &TwoCostItem::item);
    return Partition(items);
  }

 private:
  bool improve_fullest_group(std::int64_t& budget) {
    const auto fullest = by_second_.rbegin()->second;
    for (const auto& [second, emptier] : by_second_) {
      if (emptier == fullest || budget <= 0) return false;
      SwapSearch search(groups_[fullest], groups_[emptier], allowed_, budget);
      const std::optional<Swap> swap = search.run();
      budget -= search.num_examined();
      if (!swap) continue;
      apply(*swap, fullest, emptier);
      return true;
    }
    return false;
  }

  void apply(const Swap& swap, std::size_t from, std::size_t into) {
    by_second_.erase({groups_[from].sums.second, from});
    by_second_.erase({groups_[into].sums.second, into});
    const TwoCostItem given = groups_[from].remove_item(swap.given);
    if (swap.taken) groups_[from].insert_sorted(groups_[into].remove_item(*swap.taken));
    groups_[into].insert_sorted(given);
    by_second_.emplace(groups_[from].sums.second, from);
    by_second_.emplace(groups_[into].sums.second, into);
  }

  std::vector<TwoCostGroup> groups_;
  Cost allowed_ = 0;  ///< maximum sum of the first cost in a group
  std::set<std::pair<Cost, std::size_t>> by_second_;
};

}  // namespace

Partition partition_by_two_costs(const TwoCosts& costs, std::int64_t k) {
  if (costs.model.size() != costs.encoder.size()) {
    throw InputError("costs", format_there_are(std::ssize(costs.model), "cost") + " for the model and " +
                                  std::to_string(costs.encoder.size()) +
                                  " for the encoder; the two numbers must be equal");
  }
  const Cost model = balance_checks::checked_sum(costs.model, "costs of the model");
  const Cost encoder = balance_checks::checked_sum(costs.encoder, "costs of the encoder");
  const bool model_first = model >= encoder;
  const std::span<const Cost> first = model_first ? costs.model : costs.encoder;
  const std::span<const Cost> second = model_first ? costs.encoder : costs.model;
  Partition start = balance_items(first, k);
  if (largest_sum(start, second) == max_sum_lower_bound(second, k)) return start;
  TwoCostGroups groups(start, first, second);
  groups.balance_second_cost(max_sum_lower_bound(second, k));
  return groups.result();
}

}  // namespace evenkeel
