#include "balance/bins/capped_partition.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "balance/bins/bin_bounds.hpp"
#include "balance/bins/packing_search.hpp"
#include "balance/checks.hpp"
#include "balance/groups/exchanges.hpp"
#include "balance/groups/group_balance.hpp"
#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// Sorts groups in descending order of (cost, count, first item), and their items in ascending order.
Partition sort_heaviest_first(const Partition& partition, std::span<const Cost> costs) {
  const std::vector<Cost> sums = group_sums(partition, costs);
  std::vector<std::vector<Item>> groups = partition.with_sorted_items().to_vectors();
  std::vector<std::tuple<Cost, std::size_t, Item, std::size_t>> order;
  for (std::size_t g = 0; g < groups.size(); ++g)
    order.emplace_back(sums[g], groups[g].size(), groups[g].empty() ? -1 : groups[g].front(), g);
  std::ranges::sort(order, std::ranges::greater{});
  std::vector<std::vector<Item>> ordered;
  for (const auto& entry : order) ordered.push_back(std::move(groups[std::get<3>(entry)]));
  return Partition{ordered};
}

using Partitioner = Partition (*)(std::span<const Cost>, std::int64_t, GroupSize);

/// Returns the partitioning algorithms that are fast for k groups, beginning with the one that is usually
/// best.
std::span<const Partitioner> partitioners_for(std::int64_t k) {
  static constexpr std::array<Partitioner, 2> partitioners = {karmarkar_karp, longest_processing_time};
  return k > max_differenced_groups ? std::span(partitioners).subspan(1) : std::span(partitioners);
}

/// Keeps the offered partition with the smallest maximum sum; on a tie, the first one.
class MostEvenPartition {
 public:
  MostEvenPartition(std::span<const Cost> costs, std::int64_t k)
      : costs_(costs), goal_(max_sum_lower_bound(costs, k)) {
    constexpr Cost one_in = 100'000;
    goal_ += goal_ / one_in;
  }

  [[nodiscard]] Cost goal() const { return goal_; }
  /// Returns whether the largest sum is close enough to max_sum_lower_bound() to stop.
  [[nodiscard]] bool is_even() const { return best_ && largest_ <= goal_; }

  void offer(Partition partition) {
    const Cost largest = std::ranges::max(group_sums(partition, costs_));
    if (best_ && largest >= largest_) return;
    largest_ = largest;
    best_ = std::move(partition);
  }

  [[nodiscard]] std::optional<Partition> take_best() { return std::move(best_); }

 private:
  std::span<const Cost> costs_;
  Cost goal_;
  Cost largest_ = 0;
  std::optional<Partition> best_;
};

struct FewestGroups {
  std::int64_t lower_bound = 0;
  Partition packing;
};

/// The items to partition: their costs are balanced, and their sizes are limited. Contains the checks and
/// steps that the functions below have in common.
class LimitedItems {
 public:
  LimitedItems(std::span<const Cost> costs, BinItems items, BinLimits limits)
      : costs_(costs), items_(items), limits_(limits) {
    if (costs.size() != items.sizes.size()) {
      throw InputError("sizes", format_there_are(std::ssize(items.sizes), "size") + " for " +
                                    format_plain_count(std::ssize(costs), "cost") +
                                    "; the two numbers must be equal");
    }
    balance_checks::checked_sum(costs, "costs");
    sum_bound_ = sum_bound(balance_checks::checked_load_within(items, limits), limits);
  }

  /// Returns a lower bound on the number of groups, which is computed on first use. Most callers never need
  /// it, since they find a packing into exactly sum_bound_ groups.
  [[nodiscard]] std::int64_t lower_bound() const {
    if (!lower_bound_) lower_bound_ = min_bins_lower_bound(items_, limits_);
    return *lower_bound_;
  }

  /// Packs by descending size with several algorithms. Returns the packing with the fewest groups; on a tie,
  /// the first one.
  [[nodiscard]] Partition smallest_packing() const {
    Partition smallest = first_fit_decreasing(items_, limits_);
    for (const auto& pack : {best_fit_decreasing, modified_first_fit_decreasing}) {
      if (is_proven_minimal(smallest)) break;
      Partition other = pack(items_, limits_);
      if (other.size() < smallest.size()) smallest = std::move(other);
    }
    return smallest;
  }

  /// Returns a packing into k groups within the limits, if one is found. Tries to balance costs, then sizes.
  [[nodiscard]] std::optional<Partition> find_packing(std::int64_t k) const {
    if (std::optional<Partition> found = try_partitioner(partitioners_for(k).front(), k)) return found;
    for (const Partitioner partitioner : partitioners_for(k)) {
      const Partition start = partitioner(items_.sizes, k, GroupSize::free);
      const ExchangeRules by_count{.items = {{}, items_.counts}, .limits = {.max_items = limits_.max_items}};
      GroupExchanges groups(start, items_.sizes, by_count);
      groups.even_out(limits_.max_size);
      Partition partition = groups.result();
      if (keeps_limits(partition)) return partition;
    }
    return std::nullopt;
  }

  /// Returns the first number of groups for which find_packing() is tried: 64 below `packed_size`, or fewer
  /// if there are more than 65536 items, but at least the lower bound.
  [[nodiscard]] std::int64_t first_num_groups_to_try(std::int64_t packed_size) const {
    const std::int64_t n = std::max<std::int64_t>(static_cast<std::int64_t>(costs_.size()), 1);
    const std::int64_t probes = std::clamp<std::int64_t>((1 << 22) / n, 4, 64);
    return std::max({lower_bound(), packed_size - probes, std::int64_t{1}});
  }

  /// Returns the packing with the fewest groups that is found. If it is proven to be minimal,
  /// FewestGroups::lower_bound is equal to its number of groups.
  [[nodiscard]] FewestGroups fewest_groups() const {
    FewestGroups fewest{sum_bound_, smallest_packing()};
    if (fewest.packing.size() == fewest.lower_bound) return fewest;
    fewest.lower_bound = lower_bound();
    for (std::int64_t k = first_num_groups_to_try(fewest.packing.size()); k < fewest.packing.size(); ++k) {
      if (std::optional<Partition> found = find_packing(k)) fewest.packing = *std::move(found);
    }
    search_fewer_groups(fewest);
    return fewest;
  }

  /// Returns a packing into at most k groups within the limits, if one is found.
  [[nodiscard]] std::optional<Partition> find_packing_into_at_most(std::int64_t k) const {
    Partition bins = smallest_packing();
    if (bins.size() <= k) return bins;
    if (std::optional<Partition> found = find_packing(k)) return found;
    Partition smallest = fewest_groups().packing;
    if (smallest.size() <= k) return smallest;
    return std::nullopt;
  }

  /// Returns the most even result over all starting partitions, or the first one that is close to
  /// max_sum_lower_bound(); nullopt if no starting partition within the limits is found.
  [[nodiscard]] std::optional<Partition> find_most_even_partition(std::int64_t k, ExchangeMethod even) const {
    MostEvenPartition best(costs_, k);
    for (const Partitioner partitioner : partitioners_for(k)) {
      if (const std::optional<Partition> start = try_partitioner(partitioner, k))
        best.offer(improve_balance(*start, best.goal(), even));
      if (best.is_even()) return best.take_best();
    }
    if (k < lower_bound()) return std::nullopt;
    if (even == ExchangeMethod::by_sets) {
      const std::vector<EmptyGroup> groups(static_cast<std::size_t>(k), {.limits = limits_});
      if (const std::optional<Partition> start = lpt_under_limits(costs_, items_, groups))
        best.offer(improve_balance(*start, best.goal(), even));
      if (best.is_even()) return best.take_best();
    }
    if (const std::optional<Partition> start = find_packing_into_at_most(k))
      best.offer(improve_balance(split_groups(*start, costs_, k), best.goal(), even));
    return best.take_best();
  }

 private:
  /// Searches for packings with one group fewer at a time, until no such packing exists or the work limit is
  /// reached.
  void search_fewer_groups(FewestGroups& fewest) const {
    constexpr std::size_t most_items = 512;
    if (costs_.size() > most_items) return;
    std::int64_t steps = (1 << 16) + 1024 * static_cast<std::int64_t>(costs_.size());
    while (fewest.packing.size() > fewest.lower_bound && steps > 0) {
      PackingSearchResult result = search_packing(items_, limits_, fewest.packing.size() - 1, steps);
      if (result.packing) {
        fewest.packing = *std::move(result.packing);
      } else if (result.is_proven) {
        fewest.lower_bound = fewest.packing.size();
      }
    }
  }

  /// Partitions by costs only; returns nullopt if the result exceeds the limits.
  [[nodiscard]] std::optional<Partition> try_partitioner(Partitioner partitioner, std::int64_t k) const {
    Partition partition = partitioner(costs_, k, GroupSize::free);
    if (!keeps_limits(partition)) return std::nullopt;
    return partition;
  }

  [[nodiscard]] Partition improve_balance(const Partition& start, Cost goal, ExchangeMethod even) const {
    GroupExchanges groups(start, costs_, {.items = items_, .limits = limits_});
    const bool has_changed =
        even == ExchangeMethod::by_sets ? groups.even_out_by_sets(goal) : groups.even_out(goal);
    return sort_heaviest_first(has_changed ? groups.result() : start, costs_);
  }

  [[nodiscard]] bool keeps_limits(const Partition& partition) const {
    return balance_checks::are_within(partition, items_, limits_);
  }

  /// Returns whether the packing is proven to be minimal. Checks sum_bound_ first, since it is already known.
  [[nodiscard]] bool is_proven_minimal(const Partition& packing) const {
    return packing.size() == sum_bound_ || packing.size() == lower_bound();
  }

  std::span<const Cost> costs_;
  BinItems items_;
  BinLimits limits_;
  std::int64_t sum_bound_ = 0;
  mutable std::optional<std::int64_t> lower_bound_;
};

}  // namespace

GroupCount count_groups(std::span<const Cost> costs, BinItems items, BinLimits limits) {
  const LimitedItems limited(costs, items, limits);
  if (costs.empty()) return {};
  const FewestGroups fewest = limited.fewest_groups();
  return {fewest.lower_bound, fewest.packing.size()};
}

std::optional<Partition> lpt_under_limits(std::span<const Cost> costs, BinItems items,
                                          std::span<const EmptyGroup> groups) {
  const ExchangeRules rules{.items = items};
  std::vector<ItemGroup> dealt(groups.size());
  std::set<std::pair<Cost, std::size_t>> by_cost;
  for (std::size_t g = 0; g < groups.size(); ++g) by_cost.emplace(groups[g].cost, g);
  std::int64_t evaluations_left = 64 * (std::ssize(costs) + std::ssize(groups));
  for (const CostedItem& entry : descending_items(costs)) {
    const auto cheapest = std::ranges::find_if(by_cost, [&](const auto& of_group) {
      const std::size_t g = of_group.second;
      --evaluations_left;
      return rules.size_of(entry.item) <= groups[g].limits.max_size - dealt[g].size &&
             rules.count_of(entry.item) <= groups[g].limits.max_items - dealt[g].count;
    });
    if (cheapest == by_cost.end() || evaluations_left < 0) return std::nullopt;
    auto node = by_cost.extract(cheapest);
    dealt[node.value().second].append_unsorted(entry, rules);
    node.value().first += entry.cost;
    by_cost.insert(std::move(node));
  }
  std::vector<std::vector<Item>> lists;
  for (const ItemGroup& group : dealt) {
    std::vector<Item>& own = lists.emplace_back();
    for (const CostedItem& entry : group.items) own.push_back(entry.item);
  }
  return Partition(lists);
}

std::optional<Partition> try_partition_under_limits(std::span<const Cost> costs, BinItems items,
                                                    BinLimits limits, std::int64_t k, ExchangeMethod even) {
  const LimitedItems limited(costs, items, limits);
  if (costs.empty() && k == 0) return Partition{};
  balance_checks::require_valid_num_groups(k);
  return limited.find_most_even_partition(k, even);
}

Partition partition_under_limits(std::span<const Cost> costs, BinItems items, BinLimits limits,
                                 std::int64_t k, ExchangeMethod even) {
  if (std::optional<Partition> partition = try_partition_under_limits(costs, items, limits, k, even))
    return *std::move(partition);
  throw LimitError("k",
                   "is " + std::to_string(k) + ", but no way was found to pack the " +
                       format_plain_count(std::ssize(costs), "item") +
                       " into so few groups within the limits; the lower bound is " +
                       format_plain_count(min_bins_lower_bound(items, limits), "group"),
                   "Allow more groups, or raise the limits");
}

}  // namespace evenkeel
