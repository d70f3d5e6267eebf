#include "balance/bins/binned_groups.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "balance/bins/bin_bounds.hpp"
#include "balance/bins/capped_partition.hpp"
#include "balance/checks.hpp"
#include "balance/groups/exchanges.hpp"
#include "balance/partition/automatic.hpp"
#include "balance/quality.hpp"

namespace evenkeel {

namespace {

std::int64_t saturating_product(std::int64_t limit, std::int64_t factor) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return limit > most / factor ? most : limit * factor;
}

class BinnedSearch {
 public:
  BinnedSearch(std::span<const Cost> costs, BinItems items, const BinnedGroups& shape)
      : costs_(costs), items_(items), shape_(shape), goal_(max_sum_lower_bound(costs, shape.groups)) {
    constexpr Cost one_in = 100'000;
    goal_ += goal_ / one_in;
    all_bins_ = sum_bound(balance_checks::checked_load_within(items, shape.limits), shape.limits);
    fewest_ = shape.round_up_num_bins(balance_checks::ceil_div(all_bins_, shape.groups));
  }

  Partition run() {
    const Partition even = balance_items(costs_, shape_.groups);
    offer(even);
    constexpr std::int64_t max_tried = 4;
    const std::int64_t end = std::min(best_most_bins_, fewest_ + max_tried * shape_.multiple_of);
    for (std::int64_t bins = fewest_; bins < end; bins += shape_.multiple_of) {
      improve_and_offer(partition_under_combined_limits(bins), bins);
      improve_and_offer(partition_by_packing_bins(bins), bins);
      improve_and_offer(balance_items(costs_, shape_.groups, GroupSize::equal), bins);
    }
    if (shape_.equal_bins) return *std::move(best_);
    if (best_most_bins_ > 1) try_unlimited_bins(even);
    const bool is_equal_earlier = !(*best_equal_ == *best_) &&
                                  max_cost_with_packed_bins(*best_equal_) < max_cost_with_packed_bins(*best_);
    return *std::move(is_equal_earlier ? best_equal_ : best_);
  }

 private:
  /// Returns the number of bins of each group, with items packed by first-fit-decreasing.
  [[nodiscard]] std::vector<std::int64_t> bin_counts_of_groups(const Partition& partition) const {
    std::vector<std::int64_t> bins;
    const ExchangeRules rules{.items = items_, .limits = shape_.limits};
    for (std::int64_t g = 0; g < partition.size(); ++g)
      bins.push_back(shape_.round_up_num_bins(count_bins(partition[g], rules)));
    return bins;
  }

  /// Returns the number of bins of each group, with items packed by the more thorough count_groups().
  [[nodiscard]] std::vector<std::int64_t> packed_bin_counts_of_groups(const Partition& partition) const {
    std::vector<std::int64_t> bins;
    for (std::int64_t g = 0; g < partition.size(); ++g) {
      std::vector<Item> group(partition[g].begin(), partition[g].end());
      std::ranges::sort(group);
      std::vector<Cost> costs;
      std::vector<std::int64_t> sizes;
      std::vector<std::int64_t> counts;
      for (const Item item : group) {
        costs.push_back(costs_[static_cast<std::size_t>(item)]);
        sizes.push_back(items_.sizes[static_cast<std::size_t>(item)]);
        counts.push_back(items_.count_of(item));
      }
      bins.push_back(shape_.round_up_num_bins(count_groups(costs, {sizes, counts}, shape_.limits).needed));
    }
    return bins;
  }

  /// Returns the largest cost of a group, including the cost of its bins, if group g has bins[g] bins.
  [[nodiscard]] Cost max_cost_with_bins(const Partition& partition,
                                        std::span<const std::int64_t> bins) const {
    const std::vector<Cost> sums = group_sums(partition, costs_);
    Cost end = 0;
    for (std::size_t g = 0; g < sums.size(); ++g) end = std::max(end, sums[g] + shape_.bin_cost * bins[g]);
    return end;
  }

  [[nodiscard]] Cost max_cost_with_packed_bins(const Partition& partition) const {
    return max_cost_with_bins(partition, packed_bin_counts_of_groups(partition));
  }

  void offer(Partition partition) {
    const std::vector<std::int64_t> bins = bin_counts_of_groups(partition);
    const std::int64_t most = std::ranges::max(bins);
    const Cost equal_end = std::ranges::max(group_sums(partition, costs_)) + shape_.bin_cost * most;
    if (!best_equal_ || equal_end < best_equal_end_) {
      best_equal_end_ = equal_end;
      best_equal_ = partition;
    }
    const Cost end = shape_.equal_bins ? equal_end : max_cost_with_bins(partition, bins);
    if (best_ && end >= best_end_) return;
    best_end_ = end;
    best_most_bins_ = most;
    best_ = std::move(partition);
  }

  [[nodiscard]] Partition improve_by_exchanges(const Partition& start, const ExchangeRules& rules,
                                               Cost goal) const {
    GroupExchanges groups(start, costs_, rules);
    return groups.even_out_by_sets(goal) ? groups.result() : start;
  }

  /// Returns groups within the combined limits of `bins` bins. When packed, their items may still need more
  /// bins. Returns an empty partition if no such groups are found.
  [[nodiscard]] Partition partition_under_combined_limits(std::int64_t bins) const {
    const BinLimits limits{saturating_product(shape_.limits.max_size, bins),
                           saturating_product(shape_.limits.max_items, bins)};
    return try_partition_under_limits(costs_, items_, limits, shape_.groups, ExchangeMethod::by_sets)
        .value_or(Partition{});
  }

  /// Packs all items into groups * bins bins, and then forms groups of `bins` bins each. Returns an empty
  /// partition if no packing is found.
  [[nodiscard]] Partition partition_by_packing_bins(std::int64_t bins) const {
    if (bins == 1) return {};  // partition_under_combined_limits() covers this case
    const auto packed = try_partition_under_limits(costs_, items_, shape_.limits, shape_.groups * bins);
    return packed ? distribute_bins(*packed) : Partition{};
  }

  /// Distributes the bins over the groups. Balances the groups' costs; their numbers of bins differ by at
  /// most one.
  [[nodiscard]] Partition distribute_bins(const Partition& bins) const {
    const Partition shares =
        balance_items(group_sums(bins, costs_), shape_.groups, GroupSize::equal).with_sorted_items();
    std::vector<std::vector<Item>> groups;
    for (std::int64_t g = 0; g < shares.size(); ++g) {
      std::vector<Item>& group = groups.emplace_back();
      for (const Item bin : shares[g]) group.insert(group.end(), bins[bin].begin(), bins[bin].end());
    }
    return Partition(groups);
  }

  /// Improves `start` by exchanges that keep each group within `bins` bins or, if a group already needs more,
  /// by exchanges under unlimited_bin_rules(). Passes the result to offer(). Does nothing if `start` is
  /// empty.
  void improve_and_offer(const Partition& start, std::int64_t bins) {
    if (start.size() != shape_.groups) return;
    if (std::ranges::max(bin_counts_of_groups(start)) > bins) {
      offer(improve_by_exchanges(start, unlimited_bin_rules(), goal_ + shape_.bin_cost * bins));
    } else {
      offer(improve_by_exchanges(start, {.items = items_, .limits = shape_.limits, .bins = bins}, goal_));
    }
  }

  /// Returns rules that allow groups any number of bins, at a cost of bin_cost per bin.
  [[nodiscard]] ExchangeRules unlimited_bin_rules() const {
    return {.items = items_,
            .limits = shape_.limits,
            .bins = std::numeric_limits<std::int64_t>::max(),
            .bin_cost = shape_.bin_cost};
  }

  void try_unlimited_bins(const Partition& even) {
    const Partition best = *best_;
    const Cost goal = goal_ + shape_.bin_cost * all_bins_ / shape_.groups;
    offer(improve_by_exchanges(best, unlimited_bin_rules(), goal));
    if (!(even == best)) offer(improve_by_exchanges(even, unlimited_bin_rules(), goal));
    // If there are more items than this, the remaining starts improve the result too little for the time they
    // take.
    constexpr std::size_t most_items = 4096;
    if (costs_.size() > most_items) return;
    offer(improve_by_exchanges(distribute_bins(best_fit_decreasing(items_, shape_.limits)),
                               unlimited_bin_rules(), goal));
    constexpr std::int64_t max_tried = 8;
    const std::int64_t multiple = shape_.multiple_of;
    const std::int64_t fewest = std::max(shape_.groups * (shape_.round_up_num_bins(1) / multiple),
                                         balance_checks::ceil_div(all_bins_, multiple));
    const std::int64_t step = balance_checks::ceil_div(shape_.groups, max_tried);
    for (std::int64_t more = 0; more < shape_.groups; more += step)
      assign_and_offer((fewest + more) * multiple);
  }

  /// Assigns the items to groups that have `bins` bins in total, improves the groups by exchanges, and passes
  /// the result to offer().
  void assign_and_offer(std::int64_t bins) {
    const Cost goal = goal_ + shape_.bin_cost / shape_.groups * bins;
    if (goal >= best_end_) return;
    const std::int64_t multiples = bins / shape_.multiple_of;
    std::vector<EmptyGroup> groups;
    for (std::int64_t g = 0; g < shape_.groups; ++g) {
      const std::int64_t own = (multiples + g) / shape_.groups * shape_.multiple_of;
      groups.push_back({shape_.bin_cost * own,
                        {saturating_product(shape_.limits.max_size, own),
                         saturating_product(shape_.limits.max_items, own)}});
    }
    if (const std::optional<Partition> start = lpt_under_limits(costs_, items_, groups))
      offer(improve_by_exchanges(*start, unlimited_bin_rules(), goal));
  }

  std::span<const Cost> costs_;
  BinItems items_;
  const BinnedGroups& shape_;
  Cost goal_;
  std::int64_t all_bins_ = 0;  ///< lower bound on the total number of bins
  std::int64_t fewest_ = 1;    ///< lower bound on the number of bins of the group with the most bins
  std::optional<Partition> best_;
  Cost best_end_ = 0;
  std::int64_t best_most_bins_ = 0;
  /// The best result if each group is charged for as many bins as the group that needs the most.
  std::optional<Partition> best_equal_;
  Cost best_equal_end_ = 0;
};

}  // namespace

std::int64_t BinnedGroups::round_up_num_bins(std::int64_t needed) const {
  return balance_checks::ceil_div(std::max({needed, least_bins, std::int64_t{1}}), multiple_of) * multiple_of;
}

Partition balance_binned_items(std::span<const Cost> costs, BinItems items, const BinnedGroups& groups) {
  if (costs.empty()) return balance_items(costs, groups.groups);
  return BinnedSearch(costs, items, groups).run();
}

}  // namespace evenkeel
