#include "balance/reference_karmarkar_karp.hpp"

#include <algorithm>
#include <compare>
#include <queue>
#include <utility>
#include <vector>

namespace evenkeel {

namespace {

struct ItemSet {
  Cost sum = 0;
  std::size_t count = 0;
  std::vector<std::pair<Item, Cost>> items;

  void add(Item item, Cost cost) {
    sum += cost;
    ++count;
    items.emplace_back(item, cost);
  }
  friend auto operator<=>(const ItemSet&, const ItemSet&) = default;
};

struct State {
  std::vector<ItemSet> sets;

  [[nodiscard]] Cost spread() const { return sets.front().sum - sets.back().sum; }
  void sort() { std::ranges::sort(sets, std::ranges::greater{}); }
  friend bool operator<(const State& left, const State& right) {
    return std::pair(left.spread(), left.sets.front()) < std::pair(right.spread(), right.sets.front());
  }
};

std::priority_queue<State> initial_states(std::span<const Cost> costs, std::size_t k, GroupSize group_size) {
  const std::size_t run = group_size == GroupSize::equal ? k : 1;
  std::vector<std::pair<Cost, Item>> rising;
  for (std::size_t i = 0; i < costs.size(); ++i) rising.emplace_back(costs[i], static_cast<Item>(i));
  for (Item virtual_item = -1; rising.size() % run != 0; --virtual_item) rising.emplace_back(0, virtual_item);
  std::ranges::sort(rising);

  std::priority_queue<State> states;
  for (std::size_t first = 0; first < rising.size(); first += run) {
    State state{std::vector<ItemSet>(k)};
    for (std::size_t i = 0; i < run; ++i)
      state.sets[i].add(rising[first + i].second, rising[first + i].first);
    state.sort();
    states.push(std::move(state));
  }
  return states;
}

State take(std::priority_queue<State>& states) {
  State state = states.top();
  states.pop();
  return state;
}

}  // namespace

Partition reference_karmarkar_karp(std::span<const Cost> costs, std::int64_t k, GroupSize group_size) {
  const auto sets = static_cast<std::size_t>(k);
  std::vector<std::vector<Item>> groups(sets);
  if (costs.empty()) return Partition{groups};
  std::priority_queue<State> states = initial_states(costs, sets, group_size);
  while (states.size() > 1) {
    State into = take(states);
    const State other = take(states);
    for (std::size_t i = 0; i < sets; ++i) {
      for (const auto& [item, cost] : other.sets[sets - 1 - i].items) into.sets[i].add(item, cost);
    }
    into.sort();
    states.push(std::move(into));
  }
  for (std::size_t g = 0; g < sets; ++g) {
    for (const auto& [item, cost] : states.top().sets[g].items) {
      if (item >= 0) groups[g].push_back(item);
    }
  }
  return Partition{groups};
}

}  // namespace evenkeel
