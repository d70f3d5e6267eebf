#include "plan/micro_batches/micro_batches.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/pipeline/order_by_schedule.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel {
namespace {

/// Returns the execution order for `plan`, `cost` or `pipeline`, which depends only on the micro-batches.
RunOrder order_by_rule(const std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder rule) {
  RunOrder order(micro_batches.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (rule == MicroBatchOrder::plan) return order;
  const auto first_entry = [](const MicroBatchPlan& m) {
    return m.empty() ? EntryId{std::numeric_limits<std::int64_t>::min()} : m.entries.front();
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int64_t at) {
    const MicroBatchPlan& m = micro_batches[static_cast<std::size_t>(at)];
    return std::tuple(m.cost, first_entry(m));
  });
  if (rule == MicroBatchOrder::cost) return order;
  // Put the costliest micro-batches in the middle and cheap ones at both ends, where pipelines fill and
  // drain.
  RunOrder ends_cheap;
  ends_cheap.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); i += 2) ends_cheap.push_back(order[i]);
  std::ranges::reverse(ends_cheap);
  for (std::size_t i = 1; i < order.size(); i += 2) ends_cheap.push_back(order[i]);
  return ends_cheap;
}

void reorder(std::vector<MicroBatchPlan>& micro_batches, const RunOrder& order) {
  std::vector<MicroBatchPlan> reordered;
  reordered.reserve(order.size());
  for (const std::int64_t at : order)
    reordered.push_back(std::move(micro_batches[static_cast<std::size_t>(at)]));
  micro_batches = std::move(reordered);
}

/// Returns the maximum number of simulation steps for ordering one list if each mini-batch has `lists` lists.
/// This limits the time that a single process spends on ordering the micro-batches of all ranks to a few
/// tenths of a second.
std::int64_t max_steps_per_list(const PlanSettings& settings, std::int64_t lists) {
  constexpr std::int64_t of_a_list = std::int64_t{1} << 20;
  constexpr std::int64_t of_a_step = std::int64_t{1} << 25;
  return std::min(of_a_list, of_a_step / lists / settings.mini_batches.count);
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
  if (units.has_shared_prefixes()) plan.units.assign(chosen.begin(), chosen.end());
  return plan;
}

const LengthEntry* find_first_above_cap(const LengthTable& table, const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment(settings.largest_group());
  const std::int64_t longest = settings.cap(settings.largest_group()) / alignment * alignment;
  const auto found = std::ranges::find_if(
      table.entries(), [&](const LengthEntry& entry) { return entry.shape.length() > longest; });
  return found == table.entries().end() ? nullptr : &*found;
}

void require_within_cap(const LengthTable& table, const PlanSettings& settings) {
  const LengthEntry* above = find_first_above_cap(table, settings);
  if (above == nullptr) return;
  const std::int64_t alignment = settings.alignment();
  const std::int64_t length = above->shape.length();
  plan_checks::throw_above_cap(
      above->shape.id, {length, align_up(length, alignment), alignment, settings.micro_batch.max_tokens},
      "micro_batch.max_tokens (or micro_batch.max_tokens_per_rank times mesh.cp)");
}

// Trees are split only between samples, so every root-to-leaf path of a part is a whole sample. Pad rows do
// not count, since positions and attention skip them.
void require_within_path_cap(const LengthTable& table, const PlanSettings& settings) {
  if (!settings.max_path_tokens) return;
  const std::int64_t most = *settings.max_path_tokens;
  const auto above = std::ranges::find_if(
      table.entries(), [&](const LengthEntry& entry) { return entry.shape.length() > most; });
  if (above == table.entries().end()) return;
  const std::int64_t length = above->shape.length();
  throw LimitError(above->shape.id,
                   "has " + format_plain_count(length, "token") +
                       " from the root of its tree to a leaf, above the cap of " +
                       format_plain_count(most, "token") + " per path",
                   "Raise prefix.max_path_tokens to at least " + std::to_string(length) +
                       ", or shorten or drop the sample");
}

std::int64_t agreed_count(std::int64_t largest_needed, const PlanSettings& settings) noexcept {
  const std::int64_t count = std::max({std::int64_t{1}, largest_needed, settings.micro_batch.min_count});
  return align_up(count, settings.count_multiple());
}

void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order) {
  EVENKEEL_PRECONDITION(cheap, order != MicroBatchOrder::schedule);
  reorder(micro_batches, order_by_rule(micro_batches, order));
}

void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, const PlanSettings& settings,
                         std::int64_t lists) {
  const MicroBatchOrder order = settings.micro_batch.order;
  if (order != MicroBatchOrder::schedule) {
    order_micro_batches(micro_batches, order);
    return;
  }
  const std::vector<RunOrder> named{order_by_rule(micro_batches, MicroBatchOrder::pipeline),
                                    order_by_rule(micro_batches, MicroBatchOrder::plan),
                                    order_by_rule(micro_batches, MicroBatchOrder::cost)};
  std::vector<Cost> costs;
  for (const MicroBatchPlan& m : micro_batches) costs.push_back(m.cost);
  reorder(micro_batches,
          order_by_schedule({settings.pp, settings.vpp}, costs, named, max_steps_per_list(settings, lists)));
}

void JointMicroBatches::reserve(std::size_t micro_batches, std::size_t units) {
  figures_.reserve(micro_batches);
  offsets_.reserve(micro_batches + 1);
  units_.reserve(units);
}

std::int64_t JointMicroBatches::add(std::span<const UnitId> units, const MicroBatchFigures& figures) {
  units_.insert(units_.end(), units.begin(), units.end());
  offsets_.push_back(std::ssize(units_));
  figures_.push_back(figures);
  return size() - 1;
}

void JointMicroBatches::reorder_ranks(std::span<const std::int64_t> rank_of) {
  std::vector<std::vector<std::int64_t>> reordered;
  reordered.reserve(of_ranks_.size());
  for (const std::int64_t rank : rank_of)
    reordered.push_back(std::move(of_ranks_[static_cast<std::size_t>(rank)]));
  of_ranks_ = std::move(reordered);
}

std::span<const UnitId> JointMicroBatches::units_of(std::int64_t micro_batch) const noexcept {
  const auto at = static_cast<std::size_t>(micro_batch);
  return std::span(units_).subspan(static_cast<std::size_t>(offsets_[at]),
                                   static_cast<std::size_t>(offsets_[at + 1] - offsets_[at]));
}

}  // namespace evenkeel
