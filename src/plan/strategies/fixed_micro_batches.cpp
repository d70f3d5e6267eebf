#include "plan/strategies/fixed_micro_batches.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/micro_batches/micro_batches.hpp"
#include "plan/schedule/seeded_order.hpp"
#include "plan/settings/checks.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

/// The totals of the open micro-batch that are subject to limits: rows, samples, and rows of capped fields.
class UsedLimits {
 public:
  UsedLimits(const PackUnits& units, const BinLimits& limits)
      : units_(units), limits_(limits), of_fields_(units.capped_rows().size()) {}

  [[nodiscard]] bool leaves_room_for(UnitId unit) const {
    for (std::size_t f = 0; f < of_fields_.size(); ++f) {
      const CappedRows& capped = units_.capped_rows()[f];
      if (capped.of_units[unit.index()] > capped.most - of_fields_[f]) return false;
    }
    return samples_ + samples_of(unit) <= limits_.max_items && rows_ + rows_of(unit) <= limits_.max_size;
  }
  void add(UnitId unit) {
    rows_ += rows_of(unit);
    samples_ += samples_of(unit);
    for (std::size_t f = 0; f < of_fields_.size(); ++f)
      of_fields_[f] += units_.capped_rows()[f].of_units[unit.index()];
  }
  void clear() {
    rows_ = samples_ = 0;
    std::ranges::fill(of_fields_, 0);
  }

 private:
  [[nodiscard]] std::int64_t rows_of(UnitId unit) const { return units_.items().sizes[unit.index()]; }
  [[nodiscard]] std::int64_t samples_of(UnitId unit) const { return std::ssize(units_[unit].entries); }

  const PackUnits& units_;
  BinLimits limits_;
  std::int64_t rows_ = 0;
  std::int64_t samples_ = 0;
  std::vector<std::int64_t> of_fields_;
};

}  // namespace

GroupCount FixedMicroBatcher::count(MiniBatchShare share) const {
  return {fewest_micro_batches(units(), units_of(share)), std::ssize(pack_at_most(share, 0))};
}

std::vector<UnitId> FixedMicroBatcher::packing_order(MiniBatchShare share) const {
  const IdView<UnitId> own = units_of(share);
  if (!settings().find<FixedSettings>()->shuffle) return to_vector(own);
  return pick(own, seeded_order(std::ssize(own), settings().seed,
                                {static_cast<std::uint64_t>(problem().step), share.mini_batch.index(),
                                 share.rank.index()}));
}

std::vector<MicroBatchPlan> FixedMicroBatcher::pack_at_most(MiniBatchShare share,
                                                            std::int64_t /*count*/) const {
  std::vector<MicroBatchPlan> micro_batches;
  std::vector<UnitId> open;
  UsedLimits taken(units(), settings().limits());
  const auto close = [&] {
    if (!open.empty()) micro_batches.push_back(micro_batch_of(units(), std::exchange(open, {})));
    taken.clear();
  };
  for (const UnitId unit : packing_order(share)) {
    if (!taken.leaves_room_for(unit)) close();
    open.push_back(unit);
    taken.add(unit);
  }
  close();
  return micro_batches;
}

void FixedStrategy::require_valid(const PlanSettings& settings) const {
  plan_checks::require_size(settings.find<FixedSettings>()->size, "micro_batch.size");
}

std::unique_ptr<const MicroBatcher> FixedStrategy::micro_batcher(const StepProblem& problem,
                                                                 const StepAssignment& assignment) const {
  return std::make_unique<FixedMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
