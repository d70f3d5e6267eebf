#include "plan/pipeline/pipeline_schedule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace evenkeel {
namespace {

std::int64_t end_time_of(PipelineShape shape, const std::vector<Cost>& costs) {
  return PipelineSimulation(shape, std::ssize(costs)).end_time(costs);
}

TEST(PipelineSchedule, of_equal_micro_batches_has_the_known_length) {
  for (const std::int64_t stages : {1, 2, 3, 4, 8}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      for (const std::int64_t groups : {1, 2, 5}) {
        const std::int64_t count = groups * stages;
        // A forward pass of 7 and a backward pass of 14 in each chunk; the bubble is stages - 1 times both.
        EXPECT_EQ(end_time_of({stages, chunks}, std::vector<Cost>(static_cast<std::size_t>(count), 7)),
                  21 * (chunks * count + stages - 1))
            << stages << " stages, " << chunks << " chunks, " << count << " micro-batches";
      }
    }
  }
}

TEST(PipelineSchedule, without_chunks_accepts_any_number_of_micro_batches) {
  EXPECT_EQ(end_time_of({4, 1}, {}), 0);
  EXPECT_EQ(end_time_of({4, 1}, {5}), 3 * 4 * 5);
  EXPECT_EQ(end_time_of({4, 1}, {5, 5}), 3 * (2 + 3) * 5);
}

// Stage 0: F0 0-1, F1 1-4, B0 4-6, F2 6-8, B1 13-19, B2 19-23.
// Stage 1: F0 1-2, B0 2-4, F1 4-7, B1 7-13, F2 13-15, B2 15-19.
TEST(PipelineSchedule, matches_an_uneven_example_computed_by_hand) {
  EXPECT_EQ(end_time_of({2, 1}, {1, 3, 2}), 23);
}

// Passes 0 and 1 are chunk 0 of both micro-batches (backward: chunk 1), passes 2 and 3 the other chunk.
// Stage 0: F0 0-1, F1 1-3, F2 3-4, F3 5-7, B0 8-10, B1 14-18, B2 18-20, B3 22-26.
// Stage 1: F0 1-2, F1 3-5, F2 5-6, B0 6-8, F3 8-10, B1 10-14, B2 14-16, B3 18-22.
TEST(PipelineSchedule, matches_an_uneven_interleaved_example_computed_by_hand) {
  EXPECT_EQ(end_time_of({2, 2}, {1, 2}), 26);
}

TEST(PipelineSchedule, with_chunks_rounds_the_count_up_to_a_multiple_of_the_stages) {
  EXPECT_EQ(end_time_of({3, 2}, {4, 2, 5, 1}), end_time_of({3, 2}, {4, 2, 5, 1, 0, 0}));
}

TEST(PipelineSchedule, simulations_are_independent_of_earlier_ones) {
  PipelineSimulation simulation({3, 2}, 6);
  const std::vector<Cost> costs{5, 1, 4, 2, 2, 9};
  const std::int64_t first = simulation.end_time(costs);
  static_cast<void>(simulation.end_time(std::vector<Cost>{100, 0, 3, 50, 2, 1}));
  EXPECT_EQ(simulation.end_time(costs), first);
}

TEST(PipelineSchedule, counts_of_steps_saturate) {
  EXPECT_EQ(simulation_steps({4, 1}, 10), 2 * 4 * 10);
  EXPECT_EQ(simulation_steps({4, 3}, 10), 2 * 4 * 3 * 12);
  EXPECT_EQ(simulation_steps({4, 1}, 0), 0);
  EXPECT_EQ(simulation_steps({1 << 20, 1 << 20}, std::int64_t{1} << 40),
            std::numeric_limits<std::int64_t>::max());
}

TEST(PipelineSchedule, costs_are_shifted_only_as_far_as_needed) {
  EXPECT_EQ(simulation_shift({8, 4}, std::vector<Cost>{1'000'000'000'000, 5}), 0);
  const std::vector<Cost> large{Cost{1} << 61, (Cost{1} << 61) - 1};
  EXPECT_EQ(simulation_shift({1, 1}, large), 1);
  EXPECT_EQ(simulation_shift({8, 1}, large), 4);
}

/// Megatron's schedules written out pass by pass, slowly.
class WrittenDown {
 public:
  WrittenDown(PipelineShape shape, std::vector<Cost> costs) : shape_(shape), costs_(std::move(costs)) {}

  std::int64_t end() {
    const std::int64_t count = std::ssize(costs_);
    const std::int64_t passes = count * shape_.chunks;
    std::vector<std::vector<Pass>> of_stages;
    for (std::int64_t stage = 0; stage < shape_.stages; ++stage) {
      std::int64_t warm_up = shape_.stages - stage - 1;
      if (shape_.chunks > 1) warm_up = 2 * warm_up + (shape_.chunks - 1) * shape_.stages;
      warm_up = std::min(warm_up, passes);
      std::vector<Pass>& of_stage = of_stages.emplace_back();
      for (std::int64_t k = 0; k < warm_up; ++k) of_stage.push_back(pass(false, stage, k));
      for (std::int64_t k = warm_up; k < passes; ++k) {
        of_stage.push_back(pass(false, stage, k));
        of_stage.push_back(pass(true, stage, k - warm_up));
      }
      for (std::int64_t k = passes - warm_up; k < passes; ++k) of_stage.push_back(pass(true, stage, k));
    }
    return run(of_stages);
  }

 private:
  struct Pass {
    bool is_backward = false;
    std::int64_t micro_batch = 0;
    std::int64_t place = 0;  // among all chunks of the model, starting from the first layers

    friend auto operator<=>(const Pass&, const Pass&) = default;
  };

  /// Megatron's get_model_chunk_id and get_microbatch_id_in_model_chunk.
  [[nodiscard]] Pass pass(bool is_backward, std::int64_t stage, std::int64_t k) const {
    const std::int64_t in_group = shape_.stages * shape_.chunks;
    std::int64_t chunk = k % in_group / shape_.stages;
    if (is_backward) chunk = shape_.chunks - chunk - 1;
    return {is_backward, k / in_group * shape_.stages + k % shape_.stages, chunk * shape_.stages + stage};
  }

  std::int64_t run(const std::vector<std::vector<Pass>>& of_stages) {
    std::map<Pass, std::int64_t> ends;
    std::vector<std::size_t> next(of_stages.size());
    std::vector<std::int64_t> times(of_stages.size());
    for (bool any = true; any;) {
      any = false;
      for (std::size_t stage = 0; stage < of_stages.size(); ++stage) {
        if (next[stage] == of_stages[stage].size()) continue;
        const Pass& own = of_stages[stage][next[stage]];
        std::int64_t start = times[stage];
        if (const auto before = needed_by(own)) {
          const auto at = ends.find(*before);
          if (at == ends.end()) continue;
          start = std::max(start, at->second);
        }
        const Cost cost = costs_[static_cast<std::size_t>(own.micro_batch)];
        times[stage] = ends[own] = start + (own.is_backward ? 2 : 1) * cost;
        ++next[stage];
        any = true;
      }
    }
    for (std::size_t stage = 0; stage < of_stages.size(); ++stage)
      EXPECT_EQ(next[stage], of_stages[stage].size()) << "stage " << stage << " never ends";
    return std::ranges::max(times);
  }

  [[nodiscard]] std::optional<Pass> needed_by(const Pass& own) const {
    const std::int64_t last = shape_.stages * shape_.chunks - 1;
    if (!own.is_backward) {
      if (own.place == 0) return std::nullopt;
      return Pass{false, own.micro_batch, own.place - 1};
    }
    if (own.place == last) return Pass{false, own.micro_batch, last};
    return Pass{true, own.micro_batch, own.place + 1};
  }

  PipelineShape shape_;
  std::vector<Cost> costs_;
};

/// A pipeline and micro-batches that it can run.
struct RandomPipeline {
  RandomPipeline() : shape{*rc::gen::inRange<std::int64_t>(1, 9), *rc::gen::inRange<std::int64_t>(1, 4)} {
    const bool interleaved = shape.chunks > 1;
    const auto count = *rc::gen::inRange<std::size_t>(1, interleaved ? 6 : 30) *
                       static_cast<std::size_t>(interleaved ? shape.stages : 1);
    costs = *rc::gen::container<std::vector<Cost>>(count, rc::gen::inRange<Cost>(0, 50));
  }

  PipelineShape shape;
  std::vector<Cost> costs;
};

RC_GTEST_PROP(PipelineSchedule, ends_when_its_passes_written_down_one_by_one_do, ()) {
  const RandomPipeline random;
  RC_ASSERT(end_time_of(random.shape, random.costs) == WrittenDown(random.shape, random.costs).end());
}

RC_GTEST_PROP(PipelineSchedule, keeps_every_stage_busy_for_its_share_and_never_stands_still, ()) {
  RandomPipeline random;
  if (*rc::gen::arbitrary<bool>()) random.costs.push_back(*rc::gen::inRange<Cost>(0, 50));
  const auto [stages, chunks] = random.shape;
  const std::int64_t end = end_time_of(random.shape, random.costs);
  const Cost sum = std::accumulate(random.costs.begin(), random.costs.end(), Cost{0});
  RC_ASSERT(end >= 3 * chunks * sum);
  RC_ASSERT(end >= 3 * chunks * stages * std::ranges::max(random.costs));
  RC_ASSERT(end <= 3 * chunks * stages * sum);
  if (stages == 1) RC_ASSERT(end == 3 * chunks * sum);
}

}  // namespace
}  // namespace evenkeel
