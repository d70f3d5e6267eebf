#include "evenkeel/plan/micro_batch_plan.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "checks.hpp"
#include "evenkeel/base/error.hpp"
#include "group_packing.hpp"

namespace evenkeel {
namespace {

PackedWork work_of(const LengthTable& table, std::span<const std::int64_t> entries,
                   const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment();
  PackedWork work{{}, {}, {}, settings.micro_batch.limits()};
  for (const std::int64_t entry : entries) {
    const std::int64_t length = table[entry].shape.length();
    work.costs.push_back(settings.balance.cost(length));
    work.sizes.push_back(align_up(length, alignment));
  }
  return work;
}

// Padding counts as work, so that the step's can pass what its samples' own lengths add up to.
void require_padded_work_fits(const LengthTable& table, const PlanSettings& settings) {
  std::int64_t longest = 0;
  for (const LengthEntry& entry : table.entries()) longest = std::max(longest, entry.shape.length());
  const std::int64_t padded = align_up(longest, settings.alignment());
  constexpr Cost most = Cost{1} << 62;
  if (settings.balance.cost(padded) < most / std::max<std::int64_t>(1, table.size())) return;
  throw LimitError("balance.cost",
                   std::to_string(table.size()) + " samples padded to " + std::to_string(padded) +
                       " tokens can cost 2^62 or more",
                   "Divide the coefficients by a number: only their ratio matters");
}

}  // namespace

MicroBatchPlan micro_batch_of(const LengthTable& table, std::vector<std::int64_t> entries,
                              const PlanSettings& settings, std::int64_t padded_length) {
  const std::int64_t alignment = settings.alignment();
  MicroBatchPlan plan;
  for (const std::int64_t entry : entries) {
    const std::int64_t length = table[entry].shape.length();
    plan.tokens += length;
    plan.aligned_tokens += padded_length > 0 ? padded_length : align_up(length, alignment);
    plan.cost += settings.balance.cost(padded_length > 0 ? padded_length : length);
  }
  plan.entries = std::move(entries);
  plan.padded_length = padded_length;
  return plan;
}

void require_samples_fit(const LengthTable& table, const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment();
  const std::int64_t cap = settings.micro_batch.max_tokens;
  const std::int64_t longest = cap / alignment * alignment;
  for (const LengthEntry& entry : table.entries()) {
    const std::int64_t length = entry.shape.length();
    if (length <= longest) continue;
    plan_checks::throw_above_cap(entry.shape.id.value(),
                                 {length, align_up(length, alignment), alignment, cap});
  }
  if (settings.micro_batch.mode == MicroBatchMode::padded) require_padded_work_fits(table, settings);
}

GroupCount count_micro_batches(const LengthTable& table, std::span<const std::int64_t> entries,
                               const PlanSettings& settings) {
  return count_needed(work_of(table, entries, settings), settings.micro_batch);
}

std::int64_t agreed_count(std::int64_t largest_needed, const PlanSettings& settings) noexcept {
  const std::int64_t count = std::max({std::int64_t{1}, largest_needed, settings.micro_batch.min_count});
  return align_up(count, settings.count_multiple());
}

std::vector<MicroBatchPlan> plan_micro_batches(const LengthTable& table,
                                               std::span<const std::int64_t> entries, std::int64_t count,
                                               const PlanSettings& settings) {
  const Partition groups = pack_into(work_of(table, entries, settings), count, settings.micro_batch);
  std::vector<MicroBatchPlan> micro_batches;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    std::vector<std::int64_t> of_group;
    for (const Item item : groups[g]) of_group.push_back(entries[static_cast<std::size_t>(item)]);
    micro_batches.push_back(micro_batch_of(table, std::move(of_group), settings));
  }
  order_micro_batches(micro_batches, settings.micro_batch.order);
  return micro_batches;
}

void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order) {
  if (order == MicroBatchOrder::plan) return;
  const auto first_entry = [](const MicroBatchPlan& m) {
    return m.empty() ? std::numeric_limits<std::int64_t>::min() : m.entries.front();
  };
  std::ranges::stable_sort(micro_batches, std::ranges::greater{},
                           [&](const MicroBatchPlan& m) { return std::tuple(m.cost, first_entry(m)); });
  if (order == MicroBatchOrder::cost) return;
  std::vector<MicroBatchPlan> reordered;
  reordered.reserve(micro_batches.size());
  for (std::size_t i = 0; i < micro_batches.size(); i += 2) reordered.push_back(std::move(micro_batches[i]));
  std::ranges::reverse(reordered);
  for (std::size_t i = 1; i < micro_batches.size(); i += 2) reordered.push_back(std::move(micro_batches[i]));
  micro_batches = std::move(reordered);
}

}  // namespace evenkeel
