#include <algorithm>

#include "balance/checks.hpp"
#include "balance/context_levels.hpp"

namespace evenkeel {

Cost context_lower_bound(const ContextProblem& problem) {
  if (problem.items.empty()) return 0;
  const ContextLevels levels(problem);
  const CommunicationCost& cost = problem.communication;
  ContextWork all;
  Cost communication = 0;
  Cost longest = 0;
  std::int64_t tokens = 0;
  std::int64_t count = 0;
  for (Item item = 0; item < levels.num_items(); ++item) {
    all += levels.work(item);
    count += problem.count_of(item);
    const int lowest = levels.lowest(item);
    Cost least = levels.time(item, lowest);
    Cost least_communication = communication_of(levels.work(item).rows, levels.size(lowest), cost);
    std::int64_t least_tokens = levels.aligned(item, lowest);
    for (int level = lowest + 1; level < levels.count(); ++level) {
      least = std::min(least, levels.time(item, level));
      least_communication =
          std::min(least_communication, communication_of(levels.work(item).rows, levels.size(level), cost));
      least_tokens = std::min(least_tokens, levels.aligned(item, level));
    }
    tokens += least_tokens;
    communication += least_communication;
    longest = std::max(longest, least);
  }
  const Cost hidden = all.attention / 1000 * cost.overlap + all.attention % 1000 * cost.overlap / 1000;
  const std::int64_t groups =
      std::max({tokens == 0 ? 0 : balance_checks::ceil_div(tokens, problem.limits.max_size),
                count == 0 ? 0 : balance_checks::ceil_div(count, problem.limits.max_items), std::int64_t{1}});
  const Cost area =
      all.work + std::max<Cost>(0, communication - hidden - levels.num_items()) + groups * cost.overhead;
  return std::max(balance_checks::ceil_div(area, problem.ranks), longest);
}

}  // namespace evenkeel
