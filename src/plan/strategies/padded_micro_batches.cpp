#include "plan/strategies/padded_micro_batches.hpp"

#include <algorithm>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/micro_batches/padded_batching.hpp"
#include "plan/settings/checks.hpp"
#include "plan/strategies/micro_batcher.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

PaddedBatchingSettings padded_settings(const PlanSettings& settings) {
  PaddedBatchingSettings padded;
  padded.dp = settings.dp;
  padded.max_tokens = settings.micro_batch.max_tokens;
  padded.length_round = settings.alignment();
  padded.max_samples = settings.limits().max_items;
  padded.min_count = settings.micro_batch.min_count;
  padded.count_multiple = settings.count_multiple();
  return padded;
}

/// Returns the figures of a padded micro-batch. Each sample counts as `padded_length` aligned tokens. Its
/// cost is that of `padded_length` tokens, unless a field defines the costs.
MicroBatchFigures padded_figures(const PackUnits& units, std::span<const UnitId> samples,
                                 std::int64_t padded_length, const BalanceSettings& balance) {
  MicroBatchFigures figures = figures_of(units, samples);
  figures.padded_length = padded_length;
  figures.aligned_tokens = std::ssize(samples) * padded_length;
  if (!balance.cost_field) figures.cost = std::ssize(samples) * balance.cost(padded_length);
  return figures;
}

JointMicroBatches plan_padded(const StepProblem& problem, const PackUnits& units,
                              const IdGroups<UnitId>& shares) {
  EVENKEEL_PRECONDITION(cheap, !units.has_shared_prefixes());
  const PlanSettings& settings = problem.settings;
  const PaddedBatches batches =
      plan_padded_batches(shares.items(), units.rows(), padded_settings(settings), units.capped_rows());
  JointMicroBatches joint(settings.dp);
  joint.count.needed = std::ssize(batches.micro_batches);
  for (int r = 0; r < settings.dp; ++r) {
    joint.count.lower_bound =
        std::max(joint.count.lower_bound, min_micro_batches_lower_bound(units, shares[r]));
    for (std::int64_t m = 0; m < joint.count.needed; ++m) {
      const std::vector<UnitId> samples = to_vector<UnitId>({batches.samples(DpRank{r}, m), {}});
      const std::int64_t length = batches.micro_batches[static_cast<std::size_t>(m)].padded_length;
      joint.append_to_rank(DpRank{r},
                           joint.add(samples, padded_figures(units, samples, length, settings.balance)));
    }
  }
  return joint;
}

void require_padded_work_fits(const LengthTable& table, const PlanSettings& settings) {
  std::int64_t longest = 0;
  for (const LengthEntry& entry : table.entries()) longest = std::max(longest, entry.shape.length());
  const std::int64_t padded = align_up(longest, settings.alignment());
  constexpr Cost most = Cost{1} << 62;
  if (settings.balance.cost(padded) < most / std::max<std::int64_t>(1, table.size())) return;
  throw LimitError("balance.cost",
                   format_plain_count(table.size(), "sample") + " padded to " +
                       format_plain_count(padded, "token") + " can cost 2^62 or more",
                   "Divide the coefficients of balance.cost and, if it is set, balance.overhead by the same "
                   "number, or use fewer or shorter samples per step");
}

}  // namespace

void PaddedStrategy::require_valid(const PlanSettings& settings) const {
  plan_checks::require_valid_size(settings.find<PaddedSettings>()->length_round, "micro_batch.length_round");
}

void PaddedStrategy::require_samples_fit(const LengthTable& table, const PlanSettings& settings) const {
  HierarchicalStrategy::require_samples_fit(table, settings);
  require_padded_work_fits(table, settings);
}

void PaddedStrategy::add_joint_micro_batches(const StepProblem& problem, StepAssignment& assignment) const {
  for (MiniBatchAssignment& mini_batch : assignment.mini_batches)
    mini_batch.joint = plan_padded(problem, assignment.units, mini_batch.units);
}

Partition PaddedStrategy::assign_automatically(const AssignedWork& work, const PlanSettings& settings) const {
  return sorted_stride(work.rows, settings.dp).with_sorted_items();
}

std::unique_ptr<const MicroBatcher> PaddedStrategy::make_micro_batcher(
    const StepProblem& problem, const StepAssignment& assignment) const {
  return std::make_unique<JointMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
