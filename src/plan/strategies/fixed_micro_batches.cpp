#include "plan/strategies/fixed_micro_batches.hpp"

#include <utility>

#include "plan/micro_batches/micro_batches.hpp"
#include "plan/schedule/seeded_order.hpp"
#include "plan/units/picked_units.hpp"

namespace evenkeel {

GroupCount FixedMicroBatcher::count(MiniBatchShare share) const {
  const PickedUnits own(units(), units_of(share));
  return {min_bins_lower_bound(own.items(), settings().micro_batch.limits()), std::ssize(packed(share, 0))};
}

std::vector<UnitId> FixedMicroBatcher::in_order(MiniBatchShare share) const {
  const IdView<UnitId> own = units_of(share);
  if (!settings().micro_batch.shuffle) return list_of(own);
  return picked(own, seeded_order(std::ssize(own), settings().seed,
                                  {static_cast<std::uint64_t>(problem().step), share.mini_batch.index(),
                                   share.rank.index()}));
}

std::vector<MicroBatchPlan> FixedMicroBatcher::packed(MiniBatchShare share, std::int64_t /*count*/) const {
  const BinLimits limits = settings().micro_batch.limits();
  const BinItems items = units().items();
  std::vector<MicroBatchPlan> micro_batches;
  std::vector<UnitId> open;
  std::int64_t rows = 0;
  std::int64_t samples = 0;
  const auto close = [&] {
    if (!open.empty()) micro_batches.push_back(micro_batch_of(units(), std::exchange(open, {})));
    rows = 0;
    samples = 0;
  };
  for (const UnitId unit : in_order(share)) {
    const std::int64_t more_rows = items.sizes[unit.index()];
    const std::int64_t more_samples = items.count_of(unit.value());
    if (samples + more_samples > limits.max_items || rows + more_rows > limits.max_size) close();
    open.push_back(unit);
    rows += more_rows;
    samples += more_samples;
  }
  close();
  return micro_batches;
}

std::unique_ptr<const MicroBatcher> FixedStrategy::micro_batcher(const StepProblem& problem,
                                                                 const StepAssignment& assignment) const {
  return std::make_unique<FixedMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
