#include "plan/micro_batches.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/checks.hpp"

namespace evenkeel {
namespace {

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

[[noreturn]] void throw_above_largest_group(const SampleShape& sample, const PlanSettings& settings) {
  const int size = settings.largest_group();
  throw LimitError("sample " + std::to_string(sample.id.value()),
                   "has " + number_of(sample.length(), "token") + ", " +
                       std::to_string(align_up(sample.length(), settings.alignment(size))) +
                       " after alignment, above what the largest group of " + number_of(size, "rank") +
                       " holds under the cap, " + std::to_string(settings.cap(size)),
                   "Raise micro_batch.max_tokens_per_rank, mesh.max_cp or the number of ranks, or shorten or "
                   "drop the sample");
}

}  // namespace

MicroBatchPlan micro_batch_of(const PackUnits& units, std::vector<UnitId> chosen) {
  MicroBatchPlan plan;
  plan.entries.reserve(chosen.size());
  for (const UnitId at : chosen) {
    const PackUnit unit = units[at];
    plan.entries.insert(plan.entries.end(), unit.entries.begin(), unit.entries.end());
    plan.tokens += unit.rows;
    plan.aligned_tokens += unit.aligned_rows;
    plan.cost += unit.cost;
  }
  if (units.shared()) plan.units = std::move(chosen);
  return plan;
}

void require_samples_fit(const LengthTable& table, const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment(settings.largest_group());
  const std::int64_t cap = settings.cap(settings.largest_group());
  const std::int64_t longest = cap / alignment * alignment;
  for (const LengthEntry& entry : table.entries()) {
    const std::int64_t length = entry.shape.length();
    if (length <= longest) continue;
    if (settings.flexible) throw_above_largest_group(entry.shape, settings);
    plan_checks::throw_above_cap(entry.shape.id.value(),
                                 {length, align_up(length, alignment), alignment, cap});
  }
  if (settings.micro_batch.mode == MicroBatchMode::padded) require_padded_work_fits(table, settings);
}

std::int64_t agreed_count(std::int64_t largest_needed, const PlanSettings& settings) noexcept {
  const std::int64_t count = std::max({std::int64_t{1}, largest_needed, settings.micro_batch.min_count});
  return align_up(count, settings.count_multiple());
}

void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order) {
  if (order == MicroBatchOrder::plan) return;
  const auto first_entry = [](const MicroBatchPlan& m) {
    return m.empty() ? EntryId{std::numeric_limits<std::int64_t>::min()} : m.entries.front();
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
