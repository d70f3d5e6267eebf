#include <algorithm>

#include "balance/checks.hpp"
#include "balance/context/giants.hpp"
#include "balance/context/levels.hpp"
#include "balance/context/long_items.hpp"

namespace evenkeel::context {

namespace {

using balance_checks::ceil_div;

/// Lower bounds on quantities of any schedule of all items.
struct Needs {
  Cost work = 0;
  Cost longest = 0;              ///< maximum over all items of the item's min_time()
  std::int64_t group_ranks = 1;  ///< lower bound on the sum of the group sizes over all micro-batches
};

Needs needs_of(const Levels& levels) {
  const Problem& problem = levels.problem();
  const LeastTokens least_tokens(levels);
  Needs needs;
  std::int64_t tokens = 0;
  std::int64_t count = 0;
  for (Item item = 0; item < levels.num_items(); ++item) {
    needs.work += levels.work(item).work;
    count += problem.count_of(item);
    tokens += least_tokens(item);
    if (levels.time(item, levels.lowest_level(item)) > needs.longest)
      needs.longest = std::max(needs.longest, min_time(item, levels));
  }
  if (tokens > 0) needs.group_ranks = std::max(needs.group_ranks, ceil_div(tokens, problem.limits.max_size));
  if (count > 0) needs.group_ranks = std::max(needs.group_ranks, ceil_div(count, problem.limits.max_items));
  return needs;
}

/// Decides whether the ranks could do all work within a time limit.
class Feasibility {
 public:
  Feasibility(const Levels& levels, const Needs& needs, Cost at_least)
      : levels_(&levels), needs_(needs), items_(levels, at_least), giants_(items_.giants()) {}

  [[nodiscard]] bool allows(Cost limit, int first_pooled) const {
    const CommunicationCost& cost = levels_->problem().communication;
    const Cost area = needs_.work + items_.min_extra_area(limit, first_pooled);
    Cost group_ranks = needs_.group_ranks;
    if (limit > cost.overhead) group_ranks = std::max(group_ranks, ceil_div(area, limit - cost.overhead));
    const Cost all = area + group_ranks * cost.overhead;
    if (levels_->speeds().mean_time_rounded_up(all) > limit) return false;
    if (first_pooled < levels_->count()) return true;
    // The largest items (Giants) may use their own minimum area, plus the difference between the work that
    // all ranks can do within the limit and the minimum that all items and overheads need.
    return giants_.can_fit(limit, limit - cost.overhead,
                           giants_.min_area(0, limit) + levels_->speeds().total_work_in(limit) - all);
  }

  /// Returns the smallest limit >= `least` for which allows() is true, or a value that is lower than this
  /// limit by a fraction of at most 1 / exactness. Never returns a higher value.
  [[nodiscard]] Cost min_feasible_limit(Cost least, int first_pooled) const {
    if (allows(least, first_pooled)) return least;
    constexpr Cost exactness = 1 << 16;
    Cost below = least;
    Cost step = 1 + least / exactness;
    while (!allows(below + step, first_pooled)) {
      below += step;
      step *= 2;
    }
    Cost above = below + step;
    while (above - below > 1 + below / exactness) {
      const Cost middle = below + (above - below) / 2;
      (allows(middle, first_pooled) ? above : below) = middle;
    }
    return below + 1;
  }

 private:
  const Levels* levels_;
  Needs needs_;
  LongItems items_;
  Giants giants_;
};

}  // namespace

Cost lower_bound_on(const Levels& levels) {
  const Problem& problem = levels.problem();
  const Needs needs = needs_of(levels);
  const Cost work = needs.work + needs.group_ranks * problem.communication.overhead;
  Cost bound = std::max(needs.longest, levels.speeds().mean_time_rounded_up(work));
  const Feasibility feasibility(levels, needs, bound);
  for (int first_pooled = levels.count(); first_pooled >= 1; --first_pooled)
    bound = feasibility.min_feasible_limit(bound, first_pooled);
  return bound;
}

Cost lower_bound(const Problem& problem) {
  return problem.items.empty() ? 0 : lower_bound_on(Levels(problem));
}

}  // namespace evenkeel::context
