#include "balance/context/levels.hpp"

#include <limits>

#include "balance/partition/item_order.hpp"

namespace evenkeel::context {

std::vector<std::int64_t> group_sizes_up_to(std::int64_t max_size) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= max_size; size *= 2) sizes.push_back(size);
  return sizes;
}

std::int64_t cap_of(const BinLimits& limits, std::int64_t size) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return limits.max_size > most / size ? most : limits.max_size * size;
}

Levels::Levels(const Problem& problem)
    : problem_(&problem),
      sizes_(group_sizes_up_to(problem.max_size)),
      lowest_(problem.items.size()),
      speeds_(problem.speeds, problem.ranks, sizes_) {
  for (const std::int64_t size : sizes_) caps_.push_back(cap_of(problem.limits, size));
  tokens_.reserve(problem.items.size());
  for (Item item = 0; item < num_items(); ++item) {
    tokens_.push_back(problem.aligned_size(item, 1));
    int level = 0;
    while (!fits(item, level)) ++level;
    lowest_[static_cast<std::size_t>(item)] = static_cast<std::uint8_t>(level);
  }
}

int Levels::cheapest_level_within(Item item, Cost limit) const {
  // A group of one rank does not communicate, and has the lowest overhead, so its area is the smallest.
  if (lowest_level(item) == 0 && time(item, 0) <= limit) return 0;
  int cheapest = -1;
  int fastest = lowest_level(item);
  for (int level = lowest_level(item); level < count(); ++level) {
    if (!fits(item, level)) continue;
    if (time(item, level) < time(item, fastest)) fastest = level;
    if (time(item, level) > limit) continue;
    if (cheapest < 0 || area(item, level) < area(item, cheapest)) cheapest = level;
  }
  return cheapest < 0 ? fastest : cheapest;
}

std::vector<Item> sort_by_descending_work(const Levels& levels) {
  std::vector<Cost> works(static_cast<std::size_t>(levels.num_items()));
  for (std::size_t i = 0; i < works.size(); ++i) works[i] = levels.work(static_cast<Item>(i)).work;
  std::vector<Item> order;
  order.reserve(works.size());
  for (const CostedItem& entry : descending_items_smaller_first(works)) order.push_back(entry.item);
  return order;
}

}  // namespace evenkeel::context
