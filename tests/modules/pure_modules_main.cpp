#include <iostream>

#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/step_plan.hpp"

// Plans a step according to a configuration, so the pure modules are really linked.
int main() {
  const evenkeel::LengthTable table({{{evenkeel::SampleId{0}, 0, 3, 4}, evenkeel::WorldRank{0}, 0}});
  const evenkeel::Config config = evenkeel::parse_config("mesh: {dp: 1}", "a text");
  const evenkeel::PlanSettings settings = config.plan_settings(config.grid(1).sizes());
  std::cout << evenkeel::plan_step({table, settings}).num_micro_batches() << '\n';
}
