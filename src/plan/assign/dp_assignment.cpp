#include "plan/assign/dp_assignment.hpp"

#include "balance/partition/automatic.hpp"
#include "balance/partition/lpt.hpp"
#include "balance/partition/refine.hpp"
#include "balance/partition/speed_partition.hpp"
#include "balance/partition/two_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "plan/assign/simple_partitions.hpp"
#include "plan/reference/roll_batch_balance.hpp"

namespace evenkeel {
namespace {

// What a preset's system does, unless an algorithm is asked for by name.
Partition assign_as_preset(std::span<const std::int64_t> lengths, const PlanSettings& settings) {
  if (settings.balance.preset == Preset::mindspeed_rl) {
    return longest_processing_time(lengths, settings.dp, GroupSize::equal).with_sorted_items();
  }
  return roll_batch_balance(lengths, settings.dp);
}

// Padded micro-batches waste least when the i-th samples of all DP ranks are about equally long.
bool wants_sorted_stride(const PlanSettings& settings) {
  const BalanceAlgorithm algorithm = settings.balance.algorithm;
  return algorithm == BalanceAlgorithm::sorted_stride ||
         (algorithm == BalanceAlgorithm::automatic && settings.micro_batch.mode == MicroBatchMode::padded);
}

// What counts is work alone.
Partition assign_by_cost(std::span<const Cost> costs, const PlanSettings& settings) {
  const BalanceSettings& balance = settings.balance;
  if (!balance.speeds.empty()) return partition_by_speed(costs, balance.speeds).with_sorted_items();
  const GroupSize group_size = balance.equal_count ? GroupSize::equal : GroupSize::free;
  const auto balanced_by = [&](auto algorithm) {
    Partition partition = algorithm(costs, settings.dp, group_size);
    if (balance.refine) partition = refine(costs, std::move(partition), group_size);
    return partition.with_sorted_items();
  };
  switch (balance.algorithm) {
    case BalanceAlgorithm::automatic:
      return balance_items(costs, settings.dp, group_size, balance.refine).with_sorted_items();
    case BalanceAlgorithm::karmarkar_karp:
      return balanced_by(karmarkar_karp);
    case BalanceAlgorithm::lpt:
      return balanced_by(longest_processing_time);
    case BalanceAlgorithm::sorted_stride:  // goes by rows
    case BalanceAlgorithm::none:
      break;
  }
  return contiguous_runs(std::ssize(costs), settings.dp);
}

}  // namespace

std::vector<Cost> costs_of(const LengthTable& table, const PlanSettings& settings) {
  std::vector<Cost> costs;
  costs.reserve(static_cast<std::size_t>(table.size()));
  for (const LengthEntry& entry : table.entries())
    costs.push_back(settings.balance.cost(entry.shape.length()));
  return costs;
}

Partition assign_to_dp_ranks(const AssignedWork& work, const PlanSettings& settings) {
  const BalanceSettings& balance = settings.balance;
  if (wants_sorted_stride(settings)) return sorted_stride(work.rows, settings.dp).with_sorted_items();
  if (balance.algorithm == BalanceAlgorithm::automatic && balance.preset != Preset::none)
    return assign_as_preset(work.rows, settings);
  if (balance.encoder)
    return partition_by_two_costs({work.costs, work.encoder_costs}, settings.dp).with_sorted_items();
  return assign_by_cost(work.costs, settings);
}

std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings) {
  return group_sums(contiguous_runs(table.size(), settings.dp), costs_of(table, settings));
}

}  // namespace evenkeel
