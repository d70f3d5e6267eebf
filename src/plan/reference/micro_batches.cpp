#include "plan/reference/micro_batches.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/settings/checks.hpp"
#include "plan/units/id_groups.hpp"

namespace evenkeel {
namespace {

using plan_checks::require_at_least;

std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  return align_up(value, divisor) / divisor;
}

/// Returns the number of micro-batches that verl and ROLL make, which depends on the number of tokens.
std::int64_t count_by_tokens(std::span<const std::int64_t> lengths, std::int64_t max_tokens,
                             std::int64_t min_count) {
  const std::int64_t by_tokens = ceil_div(plan_checks::total_of(lengths), max_tokens);
  return std::max(
      {std::int64_t{1}, min_count, std::min(by_tokens, static_cast<std::int64_t>(lengths.size()))});
}

/// Throws ConfigError unless the value is from `least` to 2^62, so that a sum of two such values does not
/// overflow.
void require_between(std::int64_t least, std::int64_t value, std::string_view key) {
  require_at_least(least, value, key);
  plan_checks::require_at_most(std::int64_t{1} << 62, value, key);
}

void require_valid(std::int64_t max_tokens, std::int64_t min_count, std::int64_t multiple_of) {
  require_between(1, max_tokens, "max_tokens");
  require_between(1, min_count, "min_count");
  require_between(1, multiple_of, "multiple_of");
}

std::int64_t round_up_count(std::int64_t largest, std::int64_t multiple_of) {
  require_between(0, largest, "largest");
  require_between(1, multiple_of, "multiple_of");
  return align_up(largest, multiple_of);
}

std::vector<std::int64_t> align_lengths(std::span<const std::int64_t> lengths, std::int64_t alignment) {
  require_between(1, alignment, "alignment");
  // Check lengths now, since rounding would hide a negative length.
  static_cast<void>(plan_checks::total_of(lengths));
  std::vector<std::int64_t> rounded(lengths.begin(), lengths.end());
  for (std::int64_t& length : rounded) length = align_up(length, alignment);
  return rounded;
}

/// Returns groups of balanced work, each with its samples in ascending order.
std::vector<MicroBatchPlan> balance_by_work(std::span<const std::int64_t> lengths, std::int64_t count) {
  static_cast<void>(plan_checks::total_of(lengths));
  std::vector<Cost> work(lengths.size());
  std::ranges::transform(lengths, work.begin(), CostModel::flops_7b());
  const IdGroups<EntryId> groups(karmarkar_karp(work, count).with_sorted_items());
  const std::vector<Cost> sums = group_sums(groups.items(), work);
  std::vector<MicroBatchPlan> micro_batches(sums.size());
  for (std::size_t g = 0; g < sums.size(); ++g) {
    micro_batches[g].entries = to_vector(groups[static_cast<std::int64_t>(g)]);
    micro_batches[g].cost = sums[g];
  }
  return micro_batches;
}

Partition order_items(std::vector<MicroBatchPlan> micro_batches, MicroBatchOrder order) {
  order_micro_batches(micro_batches, order);
  std::vector<std::vector<EntryId>> groups;
  groups.reserve(micro_batches.size());
  for (MicroBatchPlan& micro_batch : micro_batches) groups.push_back(std::move(micro_batch.entries));
  return IdGroups<EntryId>(groups).items();
}

/// Returns every second item in order, followed by the other items in reverse order.
std::vector<Item> order_with_cheap_ends(std::span<const Item> ascending) {
  std::vector<Item> order;
  order.reserve(ascending.size());
  for (std::size_t i = 0; i < ascending.size(); i += 2) order.push_back(ascending[i]);
  for (std::size_t i = ascending.size() / 2; i > 0; --i) order.push_back(ascending[2 * i - 1]);
  return order;
}

}  // namespace

std::int64_t reference_count(std::span<const std::int64_t> lengths, const MindSpeedBatching& batching) {
  require_at_least(1, batching.max_tokens, "max_tokens");
  require_at_least(1, batching.max_samples.value_or(1), "max_samples");
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
  return count_by_tokens(align_lengths(lengths, batching.alignment), batching.max_tokens, batching.min_count);
}

std::int64_t agreed_count(std::int64_t largest, const MindSpeedBatching& /*batching*/) {
  return largest;
}

std::int64_t agreed_count(std::int64_t largest, const VerlBatching& batching) {
  return round_up_count(largest, batching.multiple_of);
}

std::int64_t agreed_count(std::int64_t largest, const RollPacking& batching) {
  return round_up_count(largest, batching.multiple_of);
}

Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                  const MindSpeedBatching& /*batching*/) {
  return karmarkar_karp(lengths, count);
}

Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                  const VerlBatching& batching) {
  return order_items(balance_by_work(lengths, count),
                     batching.pipeline_order ? MicroBatchOrder::pipeline : MicroBatchOrder::plan);
}

Partition reference_micro_batches(std::span<const std::int64_t> lengths, std::int64_t count,
                                  const RollPacking& batching) {
  return order_items(balance_by_work(align_lengths(lengths, batching.alignment), count),
                     MicroBatchOrder::pipeline);
}

NamedMetrics dynamic_batching_metrics(std::span<const std::int64_t> lengths, std::int64_t actual_tokens,
                                      std::int64_t max_length, std::string_view stage) {
  const auto valid = static_cast<double>(plan_checks::total_of(lengths));
  const double origin = static_cast<double>(lengths.size()) * static_cast<double>(max_length);
  const auto actual = static_cast<double>(actual_tokens);
  std::string prefix = "dynamic_batching/";
  if (!stage.empty()) prefix.append(stage).append("/");
  return {{prefix + "valid_tokens", valid},
          {prefix + "actual_tokens_origin", origin},
          {prefix + "actual_tokens", actual},
          {prefix + "removed_padding_tokens", origin - actual},
          {prefix + "removed_padding_ratio", origin > 0 ? (origin - actual) / origin : 0.0}};
}

NamedMetrics seqlen_balance_metrics(std::span<const std::int64_t> lengths, const Partition& assignment,
                                    std::string_view prefix) {
  const Partition runs = contiguous_runs(static_cast<std::int64_t>(lengths.size()), assignment.size());
  const BalanceQuality before = balance_quality(group_sums(runs, lengths));
  const BalanceQuality after = balance_quality(group_sums(assignment, lengths));
  const std::string start = std::string(prefix) + "/";
  return {{start + "min", static_cast<double>(before.min)},
          {start + "max", static_cast<double>(before.max)},
          {start + "minmax_diff", static_cast<double>(before.max - before.min)},
          {start + "balanced_min", static_cast<double>(after.min)},
          {start + "balanced_max", static_cast<double>(after.max)},
          {start + "mean", before.mean}};
}

Partition roll_batch_balance(std::span<const std::int64_t> lengths, int dp,
                             std::optional<std::int64_t> mini_batch) {
  plan_checks::require_at_least(1, dp, "dp");
  plan_checks::require_at_least(1, mini_batch.value_or(1), "mini_batch");
  static_cast<void>(plan_checks::total_of(lengths));
  std::vector<Cost> work;
  work.reserve(lengths.size());
  std::ranges::transform(lengths, std::back_inserter(work), CostModel::flops_7b());

  const std::size_t whole = std::max<std::size_t>(lengths.size(), 1);
  const std::size_t run = mini_batch ? std::min(static_cast<std::size_t>(*mini_batch), whole) : whole;
  std::vector<std::vector<Item>> ranks(static_cast<std::size_t>(dp));
  for (std::size_t begin = 0; begin < work.size(); begin += run) {
    const std::span<const Cost> costs = std::span(work).subspan(begin, std::min(run, work.size() - begin));
    const Partition parts = karmarkar_karp(costs, dp, GroupSize::equal);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (const Item item : parts[static_cast<std::int64_t>(r)]) {
        ranks[r].push_back(static_cast<Item>(begin) + item);
      }
    }
  }
  for (std::vector<Item>& rank : ranks) {
    std::ranges::sort(rank, {},
                      [&](Item item) { return std::tuple(work[static_cast<std::size_t>(item)], item); });
    rank = order_with_cheap_ends(rank);
  }
  return Partition(ranks);
}

}  // namespace evenkeel
