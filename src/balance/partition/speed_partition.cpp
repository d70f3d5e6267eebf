#include "balance/partition/speed_partition.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "balance/checks.hpp"
#include "balance/partition/automatic.hpp"
#include "balance/partition/item_exchange.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// Type of products of costs and speeds.
__extension__ using Wide = __int128;

constexpr std::int64_t largest_speed = std::int64_t{1} << 31;

/// The work and speed of a group. Ordered by end time, then by group number.
struct Finish {
  Cost cost = 0;
  std::int64_t speed = 1;
  std::size_t group = 0;

  [[nodiscard]] bool ends_before(const Finish& other) const {
    return Wide{cost} * other.speed < Wide{other.cost} * speed;
  }
  friend bool operator<(const Finish& left, const Finish& right) {
    if (left.ends_before(right)) return true;
    return !right.ends_before(left) && left.group < right.group;
  }
};

class SpeedGroups {
 public:
  SpeedGroups(std::span<const Cost> costs, std::span<const std::int64_t> speeds)
      : costs_(costs), speeds_(speeds), groups_(speeds.size()) {}

  /// Assigns items in descending order of cost, each to the group in which it ends first. Among groups of
  /// equal speed, this is the group with the least work.
  void assign() {
    std::map<std::int64_t, std::set<std::pair<Cost, std::size_t>>> by_speed;
    for (std::size_t g = 0; g < groups_.size(); ++g) by_speed[speeds_[g]].emplace(0, g);
    for (const CostedItem& entry : descending_items(costs_)) {
      std::optional<Finish> first;
      for (const auto& [speed, groups] : by_speed) {
        const Finish finish{groups.begin()->first + entry.cost, speed, groups.begin()->second};
        if (!first || finish < *first) first = finish;
      }
      auto& groups = by_speed[first->speed];
      groups.erase(groups.begin());
      groups.emplace(first->cost, first->group);
      groups_[first->group].items.push_back(entry);
      groups_[first->group].cost = first->cost;
    }
    for (ItemGroup& group : groups_) std::ranges::reverse(group.items);
  }

  void improve() {
    for (std::size_t g = 0; g < groups_.size(); ++g) by_end_.insert(finish_of(g));
    std::int64_t budget = 32 * static_cast<std::int64_t>(costs_.size()) + (1 << 16);
    while (budget > 0 && improve_last_group(budget)) {
    }
  }

  [[nodiscard]] Partition result() const {
    std::vector<Item> items;
    std::vector<std::int64_t> offsets{0};
    for (const ItemGroup& group : groups_) {
      for (const CostedItem& entry : group.items) items.push_back(entry.item);
      offsets.push_back(static_cast<std::int64_t>(items.size()));
    }
    return {std::move(items), std::move(offsets)};
  }

 private:
  [[nodiscard]] Finish finish_of(std::size_t g) const { return {groups_[g].cost, speeds_[g], g}; }

  /// Makes an exchange between the group that ends last and a group that ends early, if both groups then end
  /// before the current end of the last group. Returns whether an exchange was made.
  bool improve_last_group(std::int64_t& budget) {
    const Finish last = *by_end_.rbegin();
    for (const Finish& early : by_end_) {
      const std::optional<WantedShift> wanted = wanted_shift(last, early);
      if (!wanted || budget <= 0) return false;
      ItemGroup& from = groups_[last.group];
      ItemGroup& into = groups_[early.group];
      const std::optional<Exchange> found = find_exchange(from, into, *wanted, {}, budget);
      if (!found) continue;
      const std::size_t receiver = early.group;
      by_end_.erase(finish_of(receiver));
      by_end_.erase(last);
      found->apply(from, into, {});
      by_end_.insert(finish_of(receiver));
      by_end_.insert(finish_of(last.group));
      return true;
    }
    return false;
  }

  /// Returns the shift after which both groups end at the same time, and the maximum shift after which the
  /// receiver still ends before the giver's current end. Returns nullopt if the receiver cannot take any
  /// cost.
  static std::optional<WantedShift> wanted_shift(const Finish& last, const Finish& early) {
    const Wide behind = Wide{last.cost} * early.speed - Wide{early.cost} * last.speed;
    if (behind <= last.speed) return std::nullopt;
    const auto most = static_cast<Cost>((behind - 1) / last.speed);
    const auto twice_ideal = static_cast<Cost>(2 * behind / (Wide{last.speed} + early.speed));
    return WantedShift{std::max<Cost>(twice_ideal, 2), most};
  }

  std::span<const Cost> costs_;
  std::span<const std::int64_t> speeds_;
  std::vector<ItemGroup> groups_;
  std::set<Finish> by_end_;
};

}  // namespace

Partition partition_by_speed(std::span<const Cost> costs, std::span<const std::int64_t> speeds) {
  if (speeds.empty()) throw InputError("speeds", "are empty; there must be one for each group");
  balance_checks::checked_sum(costs, "costs");
  for (std::size_t g = 0; g < speeds.size(); ++g) {
    if (speeds[g] < 1 || speeds[g] > largest_speed) {
      throw InputError("speeds", "group " + std::to_string(g) + " has speed " + std::to_string(speeds[g]) +
                                     "; a speed must be from 1 to 2^31");
    }
  }
  if (std::ranges::all_of(speeds, [&](std::int64_t speed) { return speed == speeds.front(); }))
    return balance_items(costs, static_cast<std::int64_t>(speeds.size()));
  SpeedGroups groups(costs, speeds);
  groups.assign();
  groups.improve();
  return groups.result();
}

}  // namespace evenkeel
