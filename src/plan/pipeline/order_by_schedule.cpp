#include "plan/pipeline/order_by_schedule.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

RunOrder mirror(RunOrder order) {
  std::ranges::reverse(order);
  return order;
}

/// Returns an order that begins with the `head` cheapest micro-batches, ascending, and ends with the `tail`
/// next cheapest ones, descending. The others are in between, descending if `falls`, otherwise ascending.
/// `rising` lists all micro-batches by ascending cost.
RunOrder place_cheap_at_ends(const RunOrder& rising, std::int64_t head, std::int64_t tail, bool falls) {
  RunOrder order(rising.begin(), rising.begin() + head);
  order.insert(order.end(), rising.begin() + head + tail, rising.end());
  if (falls) std::reverse(order.begin() + head, order.end());
  for (std::int64_t at = head + tail; at > head; --at)
    order.push_back(rising[static_cast<std::size_t>(at - 1)]);
  return order;
}

/// Returns the numbers of cheap micro-batches to try at each end: 0, 1, 2, 3, 4, 6, 8, 12, ..., up to twice
/// the number of stages.
std::vector<std::int64_t> end_lengths_to_try(std::int64_t stages, std::int64_t count) {
  const std::int64_t most = std::min(2 * stages, count);
  std::vector<std::int64_t> lengths{0};
  for (std::int64_t power = 1; power <= most; power *= 2) {
    lengths.push_back(power);
    if (power >= 2 && power / 2 * 3 <= most) lengths.push_back(power / 2 * 3);
  }
  return lengths;
}

class OrderSearch {
 public:
  OrderSearch(PipelineShape shape, std::vector<Cost> costs, std::int64_t max_simulations)
      : shape_(shape),
        costs_(std::move(costs)),
        in_order_(costs_.size()),
        simulations_left_(max_simulations),
        simulation_(shape, std::ssize(costs_)) {}

  /// Simulates the order, and keeps it if it is the first one or ends earlier than the best one so far.
  void try_order(const RunOrder& order) {
    const std::int64_t end = simulate_order(order);
    if (!best_.empty() && end >= best_end_) return;
    best_ = order;
    best_end_ = end;
  }

  void try_cheap_ends(const RunOrder& rising) {
    const std::vector<std::int64_t> lengths = end_lengths_to_try(shape_.stages, count());
    for (const std::int64_t head : lengths) {
      for (const std::int64_t tail : lengths) {
        for (const bool falls : {true, false}) {
          if (simulations_left_ <= 0) return;
          if (head + tail <= count()) try_order(place_cheap_at_ends(rising, head, tail, falls));
        }
      }
    }
  }

  /// Simulates all orders if there are at most `simulations_left_`, the number of simulations left. Returns
  /// whether it did.
  bool try_all() {
    std::int64_t orders = 1;
    for (std::int64_t n = 2; n <= count(); ++n) {
      orders *= n;
      if (orders > simulations_left_) return false;
    }
    RunOrder order = best_;
    std::ranges::sort(order);
    do try_order(order);
    while (std::ranges::next_permutation(order).found);
    return true;
  }

  /// Improves the best order by local search. Accepts a move unless the order would end later.
  /// Restarts near the best order after `patience` moves without improvement.
  void improve() {
    RunOrder order = best_;
    RunOrder moved;
    std::int64_t end = best_end_;
    SplitMix64 random;
    // After this number of moves without improvement, further moves hardly ever help.
    const std::int64_t patience = 2 * count() * count();
    std::int64_t in_vain = 0;
    for (std::int64_t moves = std::min(simulations_left_, 16 * patience); moves > 0; --moves) {
      const bool leave = in_vain == patience;
      moved = leave ? best_ : order;
      for (int times = leave ? 3 : 1; times > 0; --times) apply_random_move(moved, random);
      in_vain = leave ? 0 : in_vain + 1;
      const std::int64_t moved_end = simulate_order(moved);
      if (moved_end > end && !leave) continue;
      if (moved_end < best_end_) {
        best_ = moved;
        best_end_ = moved_end;
      }
      if (moved_end < end) in_vain = 0;
      std::swap(order, moved);
      end = moved_end;
    }
  }

  [[nodiscard]] RunOrder best() && { return std::move(best_); }

 private:
  [[nodiscard]] std::int64_t count() const noexcept { return std::ssize(costs_); }

  std::int64_t simulate_order(const RunOrder& order) {
    for (std::size_t at = 0; at < order.size(); ++at)
      in_order_[at] = costs_[static_cast<std::size_t>(order[at])];
    --simulations_left_;
    return simulation_.end_time(in_order_);
  }

  /// Swaps two micro-batches, or moves one micro-batch and shifts the ones in between by one position.
  void apply_random_move(RunOrder& order, SplitMix64& random) const {
    const std::int64_t from = random.random_below(count());
    std::int64_t to = random.random_below(count() - 1);
    if (to >= from) ++to;
    const auto begin = order.begin();
    if (random.random_below(2) == 0) {
      std::iter_swap(begin + from, begin + to);
    } else if (from < to) {
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    } else {
      std::rotate(begin + to, begin + from, begin + from + 1);
    }
  }

  PipelineShape shape_;
  std::vector<Cost> costs_;
  std::vector<Cost> in_order_;
  std::int64_t simulations_left_;
  PipelineSimulation simulation_;
  RunOrder best_;
  std::int64_t best_end_ = 0;
};

std::vector<Cost> shift_costs(std::span<const Cost> costs, int shift) {
  std::vector<Cost> list(costs.begin(), costs.end());
  for (Cost& cost : list) cost >>= shift;
  return list;
}

}  // namespace

RunOrder order_by_schedule(PipelineShape shape, std::span<const Cost> costs,
                           std::span<const RunOrder> candidates, std::int64_t max_steps) {
  EVENKEEL_PRECONDITION(cheap, !candidates.empty());
  for (const RunOrder& candidate : candidates)
    EVENKEEL_PRECONDITION(thorough, is_permutation(candidate, std::ssize(costs)), candidate.size());
  const auto [least, most] = std::ranges::minmax_element(costs);
  const std::int64_t steps = simulation_steps(shape, std::ssize(costs));
  if (shape.stages == 1 || costs.empty() || *least == *most || steps > max_steps_of_an_order)
    return candidates.front();
  RunOrder rising(costs.size());
  std::iota(rising.begin(), rising.end(), std::int64_t{0});
  std::ranges::sort(rising, {},
                    [&](std::int64_t at) { return std::tuple(costs[static_cast<std::size_t>(at)], at); });
  OrderSearch search(shape, shift_costs(costs, simulation_shift(shape, costs)), max_steps / steps);
  for (const RunOrder& candidate : candidates) search.try_order(candidate);
  search.try_order(rising);
  search.try_order(mirror(candidates.front()));
  if (!search.try_all()) {
    search.try_cheap_ends(rising);
    search.improve();
  }
  return std::move(search).best();
}

}  // namespace evenkeel
