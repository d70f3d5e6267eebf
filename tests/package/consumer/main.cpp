#include <evenkeel/config/file.hpp>
#include <evenkeel/plan/step_plan.hpp>
#include <iostream>

// Plans one step with a configuration from text.
int main() {
  const evenkeel::Config config = evenkeel::parse_config("micro_batch: {max_tokens: 8}", "consumer");
  const evenkeel::PlanSettings settings = config.plan_settings({1, 1, 2, 1});
  const evenkeel::LengthTable table({{{evenkeel::SampleId{0}, 0, 3, 4}, evenkeel::WorldRank{0}, 0},
                                     {{evenkeel::SampleId{1}, 0, 2, 2}, evenkeel::WorldRank{0}, 1}});
  const evenkeel::StepPlan plan = evenkeel::plan_step({table, settings});
  std::cout << plan.num_micro_batches() << " micro-batch on each of " << plan.ranks.size() << " DP ranks\n";
  return plan.ranks.size() == 2 ? 0 : 1;
}
