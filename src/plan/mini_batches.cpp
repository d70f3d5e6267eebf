#include "evenkeel/plan/mini_batches.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/dealing.hpp"
#include "evenkeel/plan/dp_assignment.hpp"
#include "seeded_order.hpp"

namespace evenkeel {
namespace {

using Groups = std::vector<std::vector<Item>>;

/// `items` in k runs, in a drawn order when there is one; each run ascending.
Groups cut(std::span<const Item> items, std::span<const std::int64_t> drawn, std::int64_t k) {
  Groups runs = contiguous_runs(static_cast<std::int64_t>(items.size()), k).to_vectors();
  for (std::vector<Item>& run : runs) {
    for (Item& item : run) {
      const auto place = static_cast<std::size_t>(item);
      item = items[drawn.empty() ? place : static_cast<std::size_t>(drawn[place])];
    }
    std::ranges::sort(run);
  }
  return runs;
}

std::vector<Item> every_entry(const LengthTable& table) {
  const Partition whole = contiguous_runs(table.size(), 1);
  return {whole.items().begin(), whole.items().end()};
}

Groups cut_whole(const LengthTable& table, const PlanSettings& settings, std::uint64_t step) {
  std::vector<std::int64_t> drawn;
  if (settings.mini_batches.shuffle) drawn = seeded_order(table.size(), settings.seed, {step});
  return cut(every_entry(table), drawn, settings.mini_batches.count);
}

Groups cut_then_balance(const LengthTable& table, const PlanSettings& settings, std::uint64_t step) {
  Groups groups;
  for (const std::vector<Item>& mini_batch : cut_whole(table, settings, step)) {
    const Partition dealt = assign_to_dp_ranks(table.part(mini_batch), settings);
    for (std::vector<Item>& group : dealt.to_vectors()) {
      for (Item& item : group) item = mini_batch[static_cast<std::size_t>(item)];
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

Groups balance_then_cut(const LengthTable& table, const PlanSettings& settings, std::uint64_t step) {
  const std::int64_t count = settings.mini_batches.count;
  const Partition ranks = assign_to_dp_ranks(table, settings);
  Groups groups(static_cast<std::size_t>(count * settings.dp));
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    const auto share = static_cast<std::int64_t>(ranks[r].size());
    const std::vector<std::int64_t> drawn =
        seeded_order(share, settings.seed, {step, static_cast<std::uint64_t>(r)});
    Groups runs = cut(ranks[r], drawn, count);
    for (std::size_t m = 0; m < runs.size(); ++m) {
      groups[m * static_cast<std::size_t>(settings.dp) + static_cast<std::size_t>(r)] = std::move(runs[m]);
    }
  }
  return groups;
}

}  // namespace

MiniBatches::MiniBatches(Partition groups, int dp) : groups_(std::move(groups)), dp_(dp) {
  if (dp >= 1 && groups_.size() % dp == 0) return;
  throw InputError("mini-batches", std::to_string(groups_.size()) +
                                       " groups do not make whole mini-batches of " + std::to_string(dp) +
                                       " DP ranks");
}

Partition MiniBatches::shares(std::int64_t mini_batch) const {
  Groups shares;
  for (std::int64_t r = 0; r < dp_; ++r) {
    const std::span<const Item> share = groups_[mini_batch * dp_ + r];
    shares.emplace_back(share.begin(), share.end());
  }
  return Partition(shares);
}

Partition cut_into_mini_batches(const LengthTable& table, const PlanSettings& settings, std::int64_t step) {
  plan_checks::require_at_least(1, settings.mini_batches.count, "batch.mini_batches");
  return Partition(cut_whole(table, settings, static_cast<std::uint64_t>(step)));
}

MiniBatches split_into_mini_batches(const LengthTable& table, const PlanSettings& settings,
                                    std::int64_t step) {
  plan_checks::require_at_least(1, settings.mini_batches.count, "batch.mini_batches");
  plan_checks::require_at_least(1, settings.dp, "mesh.dp");
  // A single mini-batch need not be cut out of the table.
  if (settings.mini_batches.keep && settings.mini_batches.count == 1)
    return {assign_to_dp_ranks(table, settings), settings.dp};
  const auto draw = static_cast<std::uint64_t>(step);
  const Groups groups = settings.mini_batches.keep ? cut_then_balance(table, settings, draw)
                                                   : balance_then_cut(table, settings, draw);
  return {Partition(groups), settings.dp};
}

}  // namespace evenkeel
