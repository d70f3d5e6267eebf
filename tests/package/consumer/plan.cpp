#include <evenkeel/planner.hpp>
#include <iostream>
#include <vector>

#if EVENKEEL_ASSERTION_LEVEL != 0
#error "how Evenkeel checks its own contracts has reached a program that uses it"
#endif

// Plans one step with a configuration from a string.
int main() {
  const evenkeel::Config config = evenkeel::parse_config("micro_batch: {max_tokens: 8}", "consumer");
  const std::vector<std::int64_t> lengths{7, 4};
  const evenkeel::LengthTable table = evenkeel::LengthTable::from_lengths(lengths);
  const evenkeel::PlanSettings settings = config.plan_settings({1, 1, 2, 1});
  const evenkeel::StepPlan plan = evenkeel::plan_step({table, settings});
  std::cout << plan.num_micro_batches() << " micro-batch on each of " << plan.ranks.size() << " DP ranks\n";
  return plan.ranks.size() == 2 ? 0 : 1;
}
