#include "plan/assign/dp_rank_plans.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

#include "balance/quality.hpp"
#include "base/hash.hpp"
#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

template <typename Member>
std::int64_t sum_over(const std::vector<MicroBatchPlan>& micro_batches, Member member) {
  std::int64_t sum = 0;
  for (const MicroBatchPlan& m : micro_batches) sum += m.*member;
  return sum;
}

/// Replaces `most` with the element-wise maximum of the two lists. The shorter list is extended with zeros.
void update_maxima(std::vector<std::int64_t>& most, std::span<const std::int64_t> numbers) {
  most.resize(std::max(most.size(), numbers.size()), 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) most[i] = std::max(most[i], numbers[i]);
}

/// Plans the DP ranks of one process in phases: count, agree, optionally choose the fastest counts, and pack.
class RankPlanner {
 public:
  RankPlanner(const StepProblem& problem, const StepAssignment& assignment, std::span<const DpRank> ranks)
      : settings_(problem.settings),
        ranks_(ranks),
        num_mini_batches_(std::ssize(assignment.mini_batches)),
        batcher_(strategy_of(problem.settings).make_micro_batcher(problem, assignment)) {}

  /// Counts the micro-batches that each of this process's DP ranks needs in each mini-batch. Returns the
  /// maximum over these ranks for each mini-batch.
  [[nodiscard]] std::vector<std::int64_t> count() {
    std::vector<std::int64_t> needed;
    for (const DpRank rank : ranks_) {
      std::vector<std::int64_t> of_rank;
      DpRankPlan& planned = plan_.ranks.emplace_back();
      for (const MiniBatchId m : ids_below<MiniBatchId>(num_mini_batches_)) {
        const GroupCount count = batcher_->count({m, rank});
        planned.lower_bound += count.lower_bound;
        planned.needed += count.needed;
        of_rank.push_back(count.needed);
      }
      update_maxima(needed, of_rank);
    }
    return needed;
  }

  /// Sets the number of micro-batches of each mini-batch, given the maximum number that any DP rank needs.
  void set_counts(std::span<const std::int64_t> largest_needed) {
    for (const std::int64_t largest : largest_needed)
      plan_.counts.push_back(agreed_count(largest, settings_));
  }

  [[nodiscard]] std::vector<Cost> slowest_times() const {
    std::vector<Cost> slowest;
    for (const DpRank rank : ranks_)
      update_maxima(slowest, times_at_counts(*batcher_, rank, plan_.counts, settings_));
    return slowest;
  }

  void choose_fastest(std::span<const Cost> slowest) {
    plan_.counts = fastest_counts(slowest, plan_.counts, settings_);
  }

  [[nodiscard]] StepPlan pack_plan() && {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      for (const MiniBatchId m : ids_below<MiniBatchId>(num_mini_batches_)) {
        std::vector<MicroBatchPlan>& own = plan_.ranks[i].micro_batches;
        std::vector<MicroBatchPlan> more = batcher_->pack({m, ranks_[i]}, plan_.counts[m.index()]);
        EVENKEEL_INVARIANT(cheap, !more.empty(), ranks_[i], m);
        own.insert(own.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
      }
    }
    return std::move(plan_);
  }

 private:
  const PlanSettings& settings_;
  std::span<const DpRank> ranks_;
  std::int64_t num_mini_batches_;
  std::unique_ptr<const MicroBatcher> batcher_;
  StepPlan plan_;
};

/// Throws std::logic_error unless every sample is planned. The balance figures would not reveal a missing
/// sample.
void require_all_planned(const LengthTable& table, const StepPlan& plan) {
  std::int64_t planned = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches) {
      if (m.is_led_by(DpRank{static_cast<int>(r)})) planned += std::ssize(m.entries);
    }
  }
  if (planned == table.size()) return;
  throw std::logic_error("planned " + std::to_string(planned) + " of " + std::to_string(table.size()) +
                         " samples");
}

constexpr std::int64_t counts_tried = 8;

std::int64_t count_at(std::int64_t fewest, std::int64_t tried, const PlanSettings& settings) {
  return fewest + tried * settings.count_multiple();
}

}  // namespace

std::int64_t DpRankPlan::tokens() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::tokens);
}
std::int64_t DpRankPlan::aligned_tokens() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::aligned_tokens);
}
Cost DpRankPlan::cost() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::cost);
}
std::int64_t StepPlan::num_micro_batches() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::uint64_t plan_hash(const StepPlan& plan) noexcept {
  Fnv1a hash;
  for (const std::int64_t count : plan.counts) hash.add(count);
  for (const DpRankPlan& rank : plan.ranks) {
    hash.add(std::ssize(rank.micro_batches));
    for (const MicroBatchPlan& m : rank.micro_batches) {
      hash.add(std::ssize(m.entries));
      for (const EntryId entry : m.entries) hash.add(entry.value());
    }
  }
  return hash.value();
}

StepPlan plan_dp_ranks(const StepProblem& problem, const StepAssignment& assignment,
                       std::span<const DpRank> ranks, PlanningPeers& peers) {
  std::optional<RankPlanner> planner;
  std::vector<std::int64_t> needed;
  const auto count = [&] {
    EVENKEEL_PRECONDITION(cheap, assignment.step == problem.step, assignment.step, problem.step);
    EVENKEEL_PRECONDITION(thorough, is_permutation(assignment.shares.items().items(), problem.table.size()),
                          assignment.shares.items().num_items(), problem.table.size());
    needed = planner.emplace(problem, assignment, ranks).count();
  };
  peers.run_locally(std::ref(count));
  peers.take_maximum(needed);
  peers.run_locally([&] { planner->set_counts(needed); });
  const auto* packed_settings = problem.settings.find<PackedSettings>();
  if (packed_settings != nullptr && packed_settings->count == CountRule::fastest) {
    std::vector<Cost> slowest_times;
    peers.run_locally([&] { slowest_times = planner->slowest_times(); });
    peers.take_maximum(slowest_times);
    peers.run_locally([&] { planner->choose_fastest(slowest_times); });
  }
  StepPlan plan;
  peers.run_locally([&] { plan = std::move(*planner).pack_plan(); });
  return plan;
}

AssignedPlan assign_and_plan(const StepProblem& problem) {
  if (compares_strategies(problem.settings)) return plan_with_best_strategy(problem);
  AssignedPlan planned;
  planned.assignment = assign_step(problem);
  std::vector<DpRank> ranks;
  for (int r = 0; r < problem.settings.dp; ++r) ranks.emplace_back(r);
  PlanningPeers nobody;
  planned.plan = plan_dp_ranks(problem, planned.assignment, ranks, nobody);
  require_all_planned(problem.table, planned.plan);
  return planned;
}

StepPlan plan_step(const StepProblem& problem) {
  return assign_and_plan(problem).plan;
}

std::vector<Cost> times_at_counts(const MicroBatcher& batcher, DpRank rank,
                                  std::span<const std::int64_t> fewest, const PlanSettings& settings) {
  std::vector<Cost> times;
  for (const MiniBatchId m : ids_below<MiniBatchId>(std::ssize(fewest))) {
    for (std::int64_t tried = 0; tried < counts_tried; ++tried) {
      const std::int64_t count = count_at(fewest[m.index()], tried, settings);
      for (const MicroBatchPlan& micro_batch : batcher.pack({m, rank}, count))
        times.push_back(settings.time_of(micro_batch.cost, rank.value()));
    }
  }
  return times;
}

std::vector<std::int64_t> fastest_counts(std::span<const Cost> slowest, std::span<const std::int64_t> fewest,
                                         const PlanSettings& settings) {
  GroupTiming timing;
  timing.overhead = settings.balance.overhead.value_or(default_overhead(settings.balance.cost));
  timing.stages = settings.pp;
  std::vector<std::int64_t> counts;
  for (const std::int64_t least : fewest) {
    std::int64_t best = least;
    std::optional<Cost> shortest;
    for (std::int64_t tried = 0; tried < counts_tried; ++tried) {
      const std::int64_t count = count_at(least, tried, settings);
      const std::vector<Cost> times(slowest.begin(), slowest.begin() + count);
      slowest = slowest.subspan(static_cast<std::size_t>(count));
      const Cost time = estimated_time(std::span(&times, 1), timing);
      if (shortest && time >= *shortest) continue;
      shortest = time;
      best = count;
    }
    counts.push_back(best);
  }
  return counts;
}

}  // namespace evenkeel
