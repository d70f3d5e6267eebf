#include "plan/reference/micro_batches.hpp"

#include "balance/partition/lpt.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/settings/checks.hpp"
#include "plan/units/id_groups.hpp"

namespace evenkeel {
namespace {

using plan_checks::require_at_least;

std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  return align_up(value, divisor) / divisor;
}

/// verl's and ROLL's count, which know no better bound than the tokens.
std::int64_t count_by_tokens(std::span<const std::int64_t> lengths, std::int64_t max_tokens,
                             std::int64_t min_count) {
  const std::int64_t by_tokens = ceil_div(plan_checks::total_of(lengths), max_tokens);
  return std::max(
      {std::int64_t{1}, min_count, std::min(by_tokens, static_cast<std::int64_t>(lengths.size()))});
}

void require_valid(std::int64_t max_tokens, std::int64_t min_count, std::int64_t multiple_of) {
  require_at_least(1, max_tokens, "micro_batch.max_tokens");
  require_at_least(1, min_count, "micro_batch.min_count");
  require_at_least(1, multiple_of, "micro_batch.multiple_of");
}

std::vector<std::int64_t> aligned(std::span<const std::int64_t> lengths, std::int64_t alignment) {
  require_at_least(1, alignment, "pack.align");
  static_cast<void>(plan_checks::total_of(lengths));  // rounding would hide a length below zero
  std::vector<std::int64_t> rounded(lengths.begin(), lengths.end());
  for (std::int64_t& length : rounded) length = align_up(length, alignment);
  return rounded;
}

/// Groups of balanced work, samples ascending.
std::vector<MicroBatchPlan> balanced_by_work(std::span<const std::int64_t> lengths, std::int64_t count) {
  static_cast<void>(plan_checks::total_of(lengths));
  std::vector<Cost> work(lengths.size());
  std::ranges::transform(lengths, work.begin(), CostModel::flops_7b());
  const IdGroups<EntryId> groups(karmarkar_karp(work, count).with_sorted_items());
  const std::vector<Cost> sums = group_sums(groups.items(), work);
  std::vector<MicroBatchPlan> micro_batches(sums.size());
  for (std::size_t g = 0; g < sums.size(); ++g) {
    micro_batches[g].entries = list_of(groups[static_cast<std::int64_t>(g)]);
    micro_batches[g].cost = sums[g];
  }
  return micro_batches;
}

Partition in_order(std::vector<MicroBatchPlan> micro_batches, MicroBatchOrder order) {
  order_micro_batches(micro_batches, order);
  std::vector<std::vector<EntryId>> groups;
  groups.reserve(micro_batches.size());
  for (MicroBatchPlan& micro_batch : micro_batches) groups.push_back(std::move(micro_batch.entries));
  return IdGroups<EntryId>(groups).items();
}

}  // namespace

std::int64_t reference_count(std::span<const std::int64_t> lengths, const MindSpeedBatching& batching) {
  require_at_least(1, batching.max_tokens, "micro_batch.max_tokens");
  require_at_least(1, batching.max_samples.value_or(1), "micro_batch.max_samples");
  const std::int64_t first_guess =
      std::max<std::int64_t>(1, ceil_div(plan_checks::total_of(lengths), batching.max_tokens));
  const std::int64_t count =
      longest_processing_time_with_cap(lengths, first_guess, batching.max_tokens).size();
  if (!batching.max_samples) return count;
  return std::max(count, ceil_div(static_cast<std::int64_t>(lengths.size()), *batching.max_samples));
}

std::int64_t reference_count(std::span<const std::int64_t> lengths, const VerlBatching& batching) {
  require_valid(batching.max_tokens, batching.min_count, batching.multiple_of);
  plan_checks::require_lengths_fit(lengths, 1, batching.max_tokens);
  return count_by_tokens(lengths, batching.max_tokens, batching.min_count);
}

std::int64_t reference_count(std::span<const std::int64_t> lengths, const RollPacking& batching) {
  require_valid(batching.max_tokens, batching.min_count, batching.multiple_of);
  plan_checks::require_lengths_fit(lengths, 1, batching.max_tokens);
  return count_by_tokens(aligned(lengths, batching.alignment), batching.max_tokens, batching.min_count);
}

std::int64_t agreed_count(std::int64_t largest, const MindSpeedBatching& /*batching*/) {
  return largest;
}

std::int64_t agreed_count(std::int64_t largest, const VerlBatching& batching) {
  return align_up(largest, batching.multiple_of);
}

std::int64_t agreed_count(std::int64_t largest, const RollPacking& batching) {
  return align_up(largest, batching.multiple_of);
}

Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                  const MindSpeedBatching& /*batching*/) {
  return karmarkar_karp(lengths, count);
}

Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                  const VerlBatching& batching) {
  return in_order(balanced_by_work(lengths, count),
                  batching.pipeline_order ? MicroBatchOrder::pipeline : MicroBatchOrder::plan);
}

Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                  const RollPacking& batching) {
  return in_order(balanced_by_work(aligned(lengths, batching.alignment), count), MicroBatchOrder::pipeline);
}

}  // namespace evenkeel
