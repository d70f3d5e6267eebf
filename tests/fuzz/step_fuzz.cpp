// Steps of random samples with random settings: each one is either planned with all guarantees or rejected.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "evenkeel/plan/step_plan.hpp"
#include "fuzz/target.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel::fuzz {
namespace {

PlanSettings settings_of(Numbers& numbers) {
  PlanSettings settings;
  settings.dp = static_cast<int>(1 + numbers.below(8));
  settings.tp = static_cast<int>(1 + numbers.below(3));
  settings.pp = static_cast<int>(1 + numbers.below(4));
  settings.vpp = settings.pp > 1 ? static_cast<int>(1 + numbers.below(3)) : 1;
  settings.cp = {static_cast<int>(1 + numbers.below(4)),
                 numbers.flag() ? CpLayout::zigzag : CpLayout::contiguous};
  settings.align_lcm = 1 + numbers.below(9);
  settings.seed = numbers.byte();
  settings.mini_batches = {1 + numbers.below(3), numbers.flag(), numbers.flag()};
  settings.sharing = static_cast<PrefixSharing>(numbers.below(2));  // trees ask for tokens
  Choices choices;
  BalanceKeys& balance = choices.balance;
  balance.algorithm = static_cast<BalanceAlgorithm>(numbers.below(5));
  balance.cost = numbers.flag() ? CostModel::tokens() : CostModel{1 + numbers.below(30000), numbers.below(3)};
  balance.equal_count = numbers.flag();
  balance.refine = numbers.flag();
  if (numbers.below(4) == 0) balance.preset = static_cast<Preset>(numbers.below(4));
  balance.strategy = static_cast<Strategy>(numbers.below(2));
  balance.placement = static_cast<PlacementRule>(numbers.below(2));
  if (numbers.below(4) == 0) {
    for (int rank = 0; rank < settings.dp; ++rank) balance.speeds.push_back(numbers.below(2000));
  }
  MicroBatchKeys& micro_batch = choices.micro_batch;
  if (numbers.below(3) == 0) micro_batch.mode = static_cast<MicroBatchMode>(numbers.below(3));
  micro_batch.max_tokens = numbers.below(60000);
  if (numbers.below(3) == 0) micro_batch.max_samples = numbers.below(9);
  micro_batch.min_count = numbers.below(4);
  if (numbers.below(3) == 0) micro_batch.multiple_of = numbers.below(5);
  micro_batch.size = numbers.below(9);
  micro_batch.length_round = numbers.below(100);
  micro_batch.shuffle = numbers.flag();
  micro_batch.order = static_cast<MicroBatchOrder>(numbers.below(4));
  if (numbers.below(4) == 0) micro_batch.packing = static_cast<BinPacking>(numbers.below(3));
  micro_batch.count = static_cast<CountRule>(numbers.below(2));
  int largest_group = 1;
  if (numbers.below(3) == 0) {
    choices.flexible_cp = true;
    largest_group = static_cast<int>(numbers.below(9));
    settings.cp.size = 1;
  }
  settings.balance = balance;
  settings.micro_batch = micro_batch;
  settings.strategy = strategy_for(choices, largest_group);
  for (int rank = 0; rank < settings.dp; ++rank) settings.dp_of_rank.push_back(rank);
  return settings;
}

LengthTable table_of(Numbers& numbers, int ranks) {
  std::vector<LengthEntry> entries;
  const std::int64_t samples = numbers.below(48);
  for (std::int64_t id = 0; id < samples; ++id) {
    const std::uint64_t group = numbers.byte() % 8U;
    const std::int64_t prompt = 1 + static_cast<std::int64_t>(group) * 37;
    const std::int64_t response = numbers.flag() ? numbers.below(400) : numbers.below(30000);
    const WorldRank owner{static_cast<int>(numbers.below(ranks))};
    entries.push_back({{SampleId{id}, group, prompt, response}, owner, static_cast<int>(id), -1, group});
  }
  return LengthTable(std::move(entries));
}

void require_every_sample_once(const LengthTable& table, const StepPlan& plan) {
  std::vector<int> times(static_cast<std::size_t>(table.size()), 0);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const MicroBatchPlan& m : plan.ranks[rank].micro_batches) {
      if (!m.is_led_by(DpRank{static_cast<int>(rank)})) continue;
      for (const EntryId entry : m.entries) ++times[entry.index()];
    }
  }
  require(std::ranges::all_of(times, [](int count) { return count == 1; }), "every sample is planned once");
}

void require_limits(const LengthTable& table, const PlanSettings& settings, const MicroBatchPlan& m) {
  const bool packed = settings.find<PaddedSettings>() == nullptr && settings.find<FixedSettings>() == nullptr;
  const bool is_reference = std::holds_alternative<ReferenceSettings>(settings.strategy);
  if (is_reference && packed) return;  // the references do not keep their caps
  const bool has_groups = settings.find<ContextGroupSettings>() != nullptr;
  const int size = has_groups ? m.context.size : settings.cp.size;
  require(m.aligned_tokens <= settings.cap(size), "no micro-batch is above the cap");
  require(std::ssize(m.entries) <= settings.limits().max_items, "no micro-batch has too many samples");
  if (!packed || settings.sharing != PrefixSharing::none) return;
  const std::int64_t alignment = settings.alignment(size);
  std::int64_t aligned = 0;
  for (const EntryId entry : m.entries)
    aligned += (table[entry].shape.length() + alignment - 1) / alignment * alignment;
  require(aligned == m.aligned_tokens, "tokens are counted with the alignment of the group");
}

void require_counts(const PlanSettings& settings, const StepPlan& plan) {
  if (settings.find<ContextTreeSettings>() != nullptr) return;
  for (const DpRankPlan& rank : plan.ranks)
    require(std::ssize(rank.micro_batches) == plan.num_micro_batches(), "DP ranks have equal counts");
  for (const std::int64_t count : plan.counts) {
    require(count % settings.count_multiple() == 0, "counts are multiples of count_multiple");
    require(count >= settings.micro_batch.min_count, "counts are at least min_count");
  }
}

/// Runs the groups like ranks would: each one waits for all members of the group of its next micro-batch.
void require_end(const StepPlan& plan) {
  std::vector<std::size_t> next(plan.ranks.size(), 0);
  const auto waiting = [&](std::size_t rank) {
    const std::vector<MicroBatchPlan>& list = plan.ranks[rank].micro_batches;
    return next[rank] < list.size() ? &list[next[rank]] : nullptr;
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const MicroBatchPlan* own = waiting(rank);
      if (own == nullptr) continue;
      const auto first = static_cast<std::size_t>(own->context.first.value());
      const auto end = first + static_cast<std::size_t>(own->context.size);
      require(end <= next.size() && first <= rank && rank < end,
              "a group has only existing ranks, and every rank that lists it");
      bool all_here = true;
      for (std::size_t member = first; member < end; ++member) {
        const MicroBatchPlan* theirs = waiting(member);
        all_here = all_here && theirs != nullptr && *theirs == *own;
      }
      if (!all_here) continue;
      for (std::size_t member = first; member < end; ++member) ++next[member];
      moves = true;
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    require(waiting(rank) == nullptr, "no rank waits for a group that never meets");
}

void require_exact_loss(const LengthTable& table, const StepPlan& plan) {
  const auto losses = step_losses(table, plan, LossSettings{});
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (std::size_t j = 0; j < plan.ranks[rank].micro_batches.size(); ++j) {
      const MicroBatchPlan& m = plan.ranks[rank].micro_batches[j];
      if (!m.is_led_by(DpRank{static_cast<int>(rank)})) continue;
      for (std::size_t e = 0; e < m.entries.size(); ++e) {
        const std::int64_t of_sample = table[m.entries[e]].shape.response;
        sum += losses[rank][j].token_weights[e] * static_cast<double>(of_sample);
        tokens += of_sample;
      }
    }
  }
  require(tokens == 0 || std::abs(sum - 1) < 1e-9, "the weights of all tokens sum up to 1");
}

}  // namespace

void run(Bytes input) {
  Numbers numbers(input);
  const PlanSettings settings = settings_of(numbers);
  const LengthTable table = table_of(numbers, settings.dp);
  settings.validate();
  const StepProblem problem{table, settings, numbers.byte()};
  const StepPlan plan = plan_step(problem);
  require(plan_step(problem) == plan, "plans are deterministic");
  require(plan.ranks.size() == static_cast<std::size_t>(settings.dp), "every DP rank has a plan");
  require_every_sample_once(table, plan);
  for (const DpRankPlan& rank : plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) require_limits(table, settings, m);
  }
  require_counts(settings, plan);
  if (settings.find<ContextGroupSettings>() != nullptr) require_end(plan);
  if (settings.mini_batches.count == 1) require_exact_loss(table, plan);
}

}  // namespace evenkeel::fuzz
