#include "plan/micro_batches/micro_batches.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/pipeline/pipeline_order.hpp"
#include "plan/settings/checks.hpp"

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

/// How the micro-batches are to be run, in an order that follows from nothing but them.
RunOrder named_order(const std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order) {
  RunOrder falling(micro_batches.size());
  std::iota(falling.begin(), falling.end(), std::int64_t{0});
  if (order == MicroBatchOrder::plan) return falling;
  const auto first_entry = [](const MicroBatchPlan& m) {
    return m.empty() ? EntryId{std::numeric_limits<std::int64_t>::min()} : m.entries.front();
  };
  std::ranges::stable_sort(falling, std::ranges::greater{}, [&](std::int64_t at) {
    const MicroBatchPlan& m = micro_batches[static_cast<std::size_t>(at)];
    return std::tuple(m.cost, first_entry(m));
  });
  if (order == MicroBatchOrder::cost) return falling;
  RunOrder ends_cheap;
  ends_cheap.reserve(falling.size());
  for (std::size_t i = 0; i < falling.size(); i += 2) ends_cheap.push_back(falling[i]);
  std::ranges::reverse(ends_cheap);
  for (std::size_t i = 1; i < falling.size(); i += 2) ends_cheap.push_back(falling[i]);
  return ends_cheap;
}

void reorder(std::vector<MicroBatchPlan>& micro_batches, const RunOrder& order) {
  std::vector<MicroBatchPlan> reordered;
  reordered.reserve(order.size());
  for (const std::int64_t at : order)
    reordered.push_back(std::move(micro_batches[static_cast<std::size_t>(at)]));
  micro_batches = std::move(reordered);
}

/// Steps that simulations of one mini-batch's list may take: of a DP rank's, or in a grid of all ranks' at
/// once. Planning all ranks in one process then takes no more than some tenths of a second longer.
std::int64_t most_steps_of_a_list(const PlanSettings& settings) {
  constexpr std::int64_t of_a_list = std::int64_t{1} << 20;
  constexpr std::int64_t of_a_step = std::int64_t{1} << 25;
  const std::int64_t lists_of_a_mini_batch = settings.balance.strategy == Strategy::grid ? 1 : settings.dp;
  return std::min(of_a_list, of_a_step / lists_of_a_mini_batch / settings.mini_batches.count);
}

}  // namespace

MicroBatchFigures figures_of(const PackUnits& units, std::span<const UnitId> chosen) {
  MicroBatchFigures figures;
  for (const UnitId at : chosen) {
    const PackUnit unit = units[at];
    figures.tokens += unit.rows;
    figures.aligned_tokens += unit.aligned_rows;
    figures.cost += unit.cost;
  }
  return figures;
}

MicroBatchPlan micro_batch_of(const PackUnits& units, std::span<const UnitId> chosen) {
  return micro_batch_of(units, chosen, figures_of(units, chosen));
}

MicroBatchPlan micro_batch_of(const PackUnits& units, std::span<const UnitId> chosen,
                              const MicroBatchFigures& figures) {
  MicroBatchPlan plan;
  plan.tokens = figures.tokens;
  plan.aligned_tokens = figures.aligned_tokens;
  plan.cost = figures.cost;
  plan.padded_length = figures.padded_length;
  plan.context = figures.context;
  plan.entries.reserve(chosen.size());
  for (const UnitId unit : chosen) units.add_entries(unit, plan.entries);
  if (units.shared()) plan.units.assign(chosen.begin(), chosen.end());
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
  EVENKEEL_PRECONDITION(cheap, order != MicroBatchOrder::schedule);
  reorder(micro_batches, named_order(micro_batches, order));
}

void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, const PlanSettings& settings) {
  const MicroBatchOrder order = settings.micro_batch.order;
  if (order != MicroBatchOrder::schedule) {
    order_micro_batches(micro_batches, order);
    return;
  }
  const std::vector<RunOrder> named{named_order(micro_batches, MicroBatchOrder::pipeline),
                                    named_order(micro_batches, MicroBatchOrder::plan),
                                    named_order(micro_batches, MicroBatchOrder::cost)};
  std::vector<Cost> costs;
  for (const MicroBatchPlan& m : micro_batches) costs.push_back(m.cost);
  reorder(micro_batches,
          order_by_schedule({settings.pp, settings.vpp}, costs, named, most_steps_of_a_list(settings)));
}

}  // namespace evenkeel
