#include "plan/micro_batches/fastest_count.hpp"

#include "balance/bins/estimated_time.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t counts_tried = 8;

std::int64_t count_at(std::int64_t fewest, std::int64_t tried, const PlanSettings& settings) {
  return fewest + tried * settings.count_multiple();
}

}  // namespace

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
