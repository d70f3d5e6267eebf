#include "plan/padded_micro_batches.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "plan/micro_batches.hpp"
#include "plan/padded_batching.hpp"
#include "plan/picked_units.hpp"

namespace evenkeel {
namespace {

PaddedBatchingSettings padded_settings(const PlanSettings& settings) {
  PaddedBatchingSettings padded;
  padded.dp = settings.dp;
  padded.max_tokens = settings.micro_batch.max_tokens;
  padded.length_round = settings.alignment();
  padded.max_samples = settings.micro_batch.limits().max_items;
  padded.min_count = settings.micro_batch.min_count;
  padded.count_multiple = settings.count_multiple();
  return padded;
}

/// Every sample takes its micro-batch's length, and works as much.
MicroBatchPlan padded_micro_batch(const PackUnits& units, IdView<UnitId> samples, std::int64_t padded_length,
                                  const CostModel& cost) {
  MicroBatchPlan plan = micro_batch_of(units, list_of(samples));
  plan.padded_length = padded_length;
  plan.aligned_tokens = std::ssize(samples) * padded_length;
  plan.cost = std::ssize(samples) * cost(padded_length);
  return plan;
}

}  // namespace

JointMicroBatches plan_padded(const StepProblem& problem, const PackUnits& units,
                              const IdGroups<UnitId>& shares) {
  EVENKEEL_PRECONDITION(cheap, !units.shared());
  const PlanSettings& settings = problem.settings;
  const PaddedBatches batches = plan_padded_batches(shares.items(), units.rows(), padded_settings(settings));
  JointMicroBatches joint;
  joint.count.needed = std::ssize(batches.micro_batches);
  for (int r = 0; r < settings.dp; ++r) {
    const PickedUnits own(units, shares[r]);
    joint.count.lower_bound =
        std::max(joint.count.lower_bound, min_bins_lower_bound(own.items(), settings.micro_batch.limits()));
    std::vector<MicroBatchPlan>& of_rank = joint.of_ranks.emplace_back();
    for (std::int64_t m = 0; m < joint.count.needed; ++m) {
      of_rank.push_back(padded_micro_batch(units, {batches.samples(DpRank{r}, m), {}},
                                           batches.micro_batches[static_cast<std::size_t>(m)].padded_length,
                                           settings.balance.cost));
    }
  }
  return joint;
}

}  // namespace evenkeel
