#include "plan/reference/roll_batch_balance.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel {
namespace {

/// Every second item as it stands, then the others backwards.
std::vector<Item> cheap_ends(std::span<const Item> ascending) {
  std::vector<Item> order;
  order.reserve(ascending.size());
  for (std::size_t i = 0; i < ascending.size(); i += 2) order.push_back(ascending[i]);
  for (std::size_t i = ascending.size() / 2; i > 0; --i) order.push_back(ascending[2 * i - 1]);
  return order;
}

}  // namespace

Partition roll_batch_balance(std::span<const std::int64_t> lengths, int dp,
                             std::optional<std::int64_t> mini_batch) {
  plan_checks::require_at_least(1, dp, "mesh.dp");
  plan_checks::require_at_least(1, mini_batch.value_or(1), "mini_batch");
  static_cast<void>(plan_checks::total_of(lengths));
  std::vector<Cost> work;
  work.reserve(lengths.size());
  std::ranges::transform(lengths, std::back_inserter(work), CostModel::flops_7b());

  const std::size_t whole = std::max<std::size_t>(lengths.size(), 1);
  const std::size_t run = mini_batch ? std::min(static_cast<std::size_t>(*mini_batch), whole) : whole;
  std::vector<std::vector<Item>> ranks(static_cast<std::size_t>(dp));
  for (std::size_t begin = 0; begin < work.size(); begin += run) {
    const std::span<const Cost> costs = std::span(work).subspan(begin, std::min(run, work.size() - begin));
    const Partition parts = karmarkar_karp(costs, dp, GroupSize::equal);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (const Item item : parts[static_cast<std::int64_t>(r)]) {
        ranks[r].push_back(static_cast<Item>(begin) + item);
      }
    }
  }
  for (std::vector<Item>& rank : ranks) {
    std::ranges::sort(rank, {},
                      [&](Item item) { return std::tuple(work[static_cast<std::size_t>(item)], item); });
    rank = cheap_ends(rank);
  }
  return Partition(ranks);
}

}  // namespace evenkeel
