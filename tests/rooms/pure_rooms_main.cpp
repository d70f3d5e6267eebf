#include <iostream>

#include "evenkeel/plan/step_plan.hpp"

// Plans a step, so that the pure rooms are really linked.
int main() {
  const evenkeel::LengthTable table({{{evenkeel::SampleId{0}, 0, 3, 4}, evenkeel::WorldRank{0}, 0}});
  std::cout << evenkeel::plan_step({table, {}}).num_micro_batches() << '\n';
}
