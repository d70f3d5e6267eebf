#include "step_moves.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "evenkeel/plan/dp_assignment.hpp"
#include "evenkeel/plan/placement_moves.hpp"

namespace evenkeel {
namespace {

/// The most micro-batches any DP rank needs, of each mini-batch.
std::vector<std::int64_t> counts_needed(const LengthTable& table, const PlanSettings& settings,
                                        const DealtStep& dealt) {
  std::vector<std::int64_t> needed(dealt.mini_batches.size(), 0);
  for (int r = 0; r < settings.dp; ++r) {
    const std::vector<GroupCount> counts = count_micro_batches(table, dealt, DpRank{r}, settings);
    for (std::size_t m = 0; m < needed.size(); ++m) needed[m] = std::max(needed[m], counts[m].needed);
  }
  return needed;
}

}  // namespace

void move_samples_to_owners(const LengthTable& table, const PlanSettings& settings,
                            const PlacementInput& input, DealtStep& dealt) {
  const std::vector<Cost> costs = costs_of(table, settings);
  const std::vector<std::int64_t> before = counts_needed(table, settings, dealt);
  MoveRules rules{settings.balance.placement_tolerance, settings.balance.equal_count};
  std::vector<bool> settled(dealt.mini_batches.size(), false);
  constexpr int tries = 4;
  for (int tried = 0; tried < tries && !std::ranges::all_of(settled, std::identity{}); ++tried) {
    DealtStep moved = dealt;
    for (std::size_t m = 0; m < settled.size(); ++m) {
      Partition& shares = moved.mini_batches[m].shares;
      if (!settled[m]) shares = move_to_owners(shares, costs, input, rules);
    }
    const std::vector<std::int64_t> after = counts_needed(table, settings, moved);
    for (std::size_t m = 0; m < settled.size(); ++m) {
      if (settled[m] || after[m] > before[m]) continue;
      dealt.mini_batches[m].shares = std::move(moved.mini_batches[m].shares);
      settled[m] = true;
    }
    rules.tolerance /= 4;
  }
}

}  // namespace evenkeel
