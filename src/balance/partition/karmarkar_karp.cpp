#include "evenkeel/balance/karmarkar_karp.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"
#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

// A state of the method consists of k sets of items. The implementation is fast for three reasons:
// 1. Sets are disjoint, so a comparison of their item lists is decided by the first item. Comparing sets or
//    states is O(1).
// 2. Empty sets always come last, so only the others are stored.
// 3. All lists are linked through one array, so joining two lists is O(1).

/// The number of an item, or of a virtual item of zero cost. Virtual items pad the number of items to a
/// multiple of the run length (see Differencing). They have the lowest numbers, and are dropped at the end.
using Node = std::int32_t;
constexpr Node end_of_list = -1;

/// A non-empty set: a linked list of nodes. The struct is small, since sets are often moved within states.
struct Set {
  Cost sum = 0;
  std::int32_t count = 0;
  Node head = 0;
};

constexpr bool is_greater(const Set& left, const Set& right) noexcept {
  if (left.sum != right.sum) return left.sum > right.sum;
  if (left.count != right.count) return left.count > right.count;
  return left.head > right.head;
}

/// The non-empty sets of a state, sorted by is_greater() (largest sum first). A state has k sets; the others
/// are empty and are not stored.
using State = std::vector<Set>;

/// The priority of a state, compared member by member. `spread` is the largest sum of its k sets minus the
/// smallest one. The state with the greatest priority is merged next.
struct Priority {
  Cost spread = 0;
  Cost sum = 0;  ///< sum of the state's first set; the members below also describe this set
  std::int32_t count = 0;
  Node head = 0;

  friend auto operator<=>(const Priority&, const Priority&) = default;
};

void sort_descending(std::span<Set> sets, State& scratch) {
  constexpr std::size_t radix_pays_off = 64;
  if (sets.size() < radix_pays_off) {
    std::sort(sets.begin(), sets.end(), is_greater);
    return;
  }
  const Cost largest = std::ranges::max_element(sets, {}, &Set::sum)->sum;
  scratch.resize(sets.size());
  radix_sort(sets, std::span(scratch),
             [largest](const Set& set) { return static_cast<std::uint64_t>(largest - set.sum); });
  for (auto run = sets.begin(); run != sets.end();) {
    const auto end =
        std::find_if(run, sets.end(), [sum = run->sum](const Set& set) { return set.sum != sum; });
    if (end - run > 1) std::sort(run, end, is_greater);
    run = end;
  }
}

class Differencing {
 public:
  /// Makes an initial state from each run of `run_length` items in ascending order of cost: k items for
  /// groups of equal counts, otherwise 1. Preconditions: k >= 2, costs are non-negative, and `costs` is not
  /// empty.
  Differencing(std::span<const Cost> costs, std::int64_t k, std::int64_t run_length)
      : k_(static_cast<std::size_t>(k)), run_length_(static_cast<std::size_t>(run_length)) {
    EVENKEEL_PRECONDITION(cheap, k >= 2 && !costs.empty(), k, costs.size());
    EVENKEEL_PRECONDITION(cheap, run_length == 1 || run_length == k, run_length, k);
    const auto n = static_cast<std::int64_t>(costs.size());
    num_virtual_ = balance_checks::ceil_div(n, run_length) * run_length - n;
    const auto num_nodes = narrow<std::int32_t>(n + num_virtual_, "number of items");
    next_.assign(static_cast<std::size_t>(num_nodes), end_of_list);
    tail_.resize(next_.size());
    std::iota(tail_.begin(), tail_.end(), Node{0});
    sorted_ = ascending_items(costs);
    if (num_virtual_ > 0) put_virtual_items_first();
    order_runs();
  }

  Partition run() {
    State held = take_greatest();
    while (!runs_.empty() || !heap_.empty()) {
      State other = take_greatest();
      merge(held, other);
      spare_.push_back(std::move(other));
      if (const Priority priority = priority_of(held); !is_greatest(priority)) {
        put_back(std::move(held), priority);
        held = take_greatest();
      }
    }
    return result(held);
  }

 private:
  struct HeapEntry {
    Priority priority;
    std::size_t slot = 0;
  };

  [[nodiscard]] Set set_of(std::size_t rank) const {
    const auto node = static_cast<Node>(sorted_[rank].item);
    return {sorted_[rank].cost, 1, node};
  }

  [[nodiscard]] Priority priority_of_run(std::size_t first) const {
    const CostedItem& last = sorted_[first + run_length_ - 1];
    const Cost smallest = run_length_ < k_ ? 0 : sorted_[first].cost;
    return {last.cost - smallest, last.cost, 1, static_cast<Node>(last.item)};
  }

  [[nodiscard]] Priority priority_of(const State& state) const {
    const Set& first = state.front();
    const Cost smallest = state.size() < k_ ? 0 : state.back().sum;
    return {first.sum - smallest, first.sum, first.count, first.head};
  }

  void put_virtual_items_first() {
    for (CostedItem& entry : sorted_) entry.item += num_virtual_;
    sorted_.insert(sorted_.begin(), static_cast<std::size_t>(num_virtual_), {});
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_virtual_); ++i)
      sorted_[i].item = static_cast<Item>(i);
  }

  void order_runs() {
    runs_.reserve(sorted_.size() / run_length_);
    for (std::size_t first = 0; first < sorted_.size(); first += run_length_) runs_.push_back(first);
    // Runs of a single item are already in order of priority, since their spread is the item's cost.
    if (run_length_ > 1)
      std::ranges::sort(runs_, {}, [this](std::size_t first) { return priority_of_run(first); });
  }

  [[nodiscard]] bool is_greatest(const Priority& priority) const {
    return (runs_.empty() || priority > priority_of_run(runs_.back())) &&
           (heap_.empty() || priority > heap_.front().priority);
  }

  /// Removes and returns the state with the greatest priority. Precondition: a run or a heap entry is left.
  State take_greatest() {
    EVENKEEL_PRECONDITION(cheap, !runs_.empty() || !heap_.empty());
    const bool from_run =
        !runs_.empty() && (heap_.empty() || priority_of_run(runs_.back()) > heap_.front().priority);
    return from_run ? take_run() : take_from_heap();
  }

  State take_run() {
    State state = spare_state();
    const std::size_t first = runs_.back();
    runs_.pop_back();
    for (std::size_t rank = first + run_length_; rank > first; --rank) state.push_back(set_of(rank - 1));
    return state;
  }

  State take_from_heap() {
    std::ranges::pop_heap(heap_, {}, &HeapEntry::priority);
    const std::size_t slot = heap_.back().slot;
    heap_.pop_back();
    free_slots_.push_back(slot);
    return std::move(slots_[slot]);
  }

  void put_back(State state, const Priority& priority) {
    if (free_slots_.empty()) {
      free_slots_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = std::move(state);
    heap_.push_back({priority, slot});
    std::ranges::push_heap(heap_, {}, &HeapEntry::priority);
  }

  State spare_state() {
    if (spare_.empty()) return {};
    State state = std::move(spare_.back());
    spare_.pop_back();
    state.clear();
    return state;
  }

  /// Appends the items of `from` to `into`.
  void join(Set& into, const Set& from) {
    Node& tail = tail_[static_cast<std::size_t>(into.head)];
    next_[static_cast<std::size_t>(tail)] = from.head;
    tail = tail_[static_cast<std::size_t>(from.head)];
    into.sum += from.sum;
    into.count += from.count;
  }

  /// Joins set k-1-i of `other` to set i of `into`; either set may be empty.
  void merge(State& into, State& other) {
    const std::size_t size = into.size();
    if (size + other.size() <= k_) {
      if (size < other.size()) std::swap(into, other);
      merge_sorted(into, other);
      return;
    }
    const std::size_t overlap_begin = k_ - other.size();
    for (std::size_t i = overlap_begin; i < size; ++i) join(into[i], other[k_ - 1 - i]);
    if (size - overlap_begin == 1) {
      move_last_to_sorted_position(into);
    } else {
      sort_descending(std::span(into).subspan(overlap_begin), scratch_);
      if (overlap_begin > 0) merge_halves(into, overlap_begin);
    }
    merge_sorted(into, std::span(other).first(k_ - size));
  }

  /// Moves the last set to its position among the other sets, which are already sorted.
  static void move_last_to_sorted_position(State& state) {
    const Set last = state.back();
    const auto place = std::upper_bound(state.begin(), state.end() - 1, last, is_greater);
    std::move_backward(place, state.end() - 1,
                       state.end());  // moves a block at once; std::rotate would swap elements one by one
    *place = last;
  }

  void merge_halves(State& state, std::size_t middle) {
    scratch_.resize(state.size());
    const auto split = state.begin() + static_cast<std::ptrdiff_t>(middle);
    std::merge(state.begin(), split, split, state.end(), scratch_.begin(), is_greater);
    std::swap(state, scratch_);
  }

  /// Merges `sets`, which are sorted by is_greater(), into the state.
  void merge_sorted(State& state, std::span<const Set> sets) {
    if (sets.size() == 1) {
      state.push_back(sets.front());
      move_last_to_sorted_position(state);
    } else if (!sets.empty()) {
      scratch_.resize(state.size() + sets.size());
      std::merge(state.begin(), state.end(), sets.begin(), sets.end(), scratch_.begin(), is_greater);
      std::swap(state, scratch_);
    }
  }

  [[nodiscard]] Partition result(const State& state) const {
    std::vector<Item> items;
    items.reserve(next_.size());
    std::vector<std::int64_t> offsets{0};
    offsets.reserve(k_ + 1);
    for (const Set& set : state) {
      for (Node node = set.head; node != end_of_list; node = next_[static_cast<std::size_t>(node)]) {
        if (node >= num_virtual_) items.push_back(node - num_virtual_);
      }
      offsets.push_back(static_cast<std::int64_t>(items.size()));
    }
    offsets.resize(k_ + 1, static_cast<std::int64_t>(items.size()));
    return {std::move(items), std::move(offsets)};
  }

  std::size_t k_;
  std::size_t run_length_;
  std::int64_t num_virtual_ = 0;
  std::vector<CostedItem> sorted_;  ///< items in ascending order of (cost, item); item numbers are nodes
  std::vector<Node> next_;          ///< by node: the next node of its list, or end_of_list
  std::vector<Node> tail_;          ///< by first node of a list: the last node of the list
  /// Start positions in `sorted_` of the runs that have not been merged yet. The run with the greatest
  /// priority comes last.
  std::vector<std::size_t> runs_;
  std::vector<HeapEntry> heap_;  ///< states that result from merging, as a max-heap by priority
  std::vector<State> slots_;
  std::vector<std::size_t> free_slots_;
  std::vector<State> spare_;  ///< memory of states that were merged into others, for reuse
  State scratch_;
};

/// Returns the result for one group: the items in descending order of (cost, item), since the state with the
/// largest item always keeps the greatest priority.
Partition single_group(std::span<const Cost> costs) {
  std::vector<Item> items;
  items.reserve(costs.size());
  for (const CostedItem& entry : descending_items(costs)) items.push_back(entry.item);
  const auto n = static_cast<std::int64_t>(items.size());
  return {std::move(items), {0, n}};
}

}  // namespace

Partition karmarkar_karp(std::span<const Cost> costs, std::int64_t k, GroupSize group_size) {
  balance_checks::require_valid_num_groups(k);
  balance_checks::checked_sum(costs, "costs");
  if (costs.empty()) return {{}, std::vector<std::int64_t>(static_cast<std::size_t>(k) + 1, 0)};
  if (k == 1) return single_group(costs);
  return Differencing(costs, k, group_size == GroupSize::equal ? k : 1).run();
}

}  // namespace evenkeel
