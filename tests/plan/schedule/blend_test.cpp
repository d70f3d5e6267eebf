#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/batch_schedule.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;

using Positions = std::vector<std::int64_t>;

/// Returns everything that a schedule draws, step by step.
Positions all_of(BatchSchedule& schedule) {
  Positions all;
  for (std::int64_t step = 0; step < schedule.num_steps(); ++step) {
    const Positions share = schedule.share_of(step, 0, 1);
    all.insert(all.end(), share.begin(), share.end());
  }
  return all;
}

/// The positions in the second source start at 9.
std::vector<ScheduledSource> two_sources(std::int64_t first_weight, std::int64_t second_weight) {
  return {{.samples = 9, .weight = first_weight}, {.samples = 3, .weight = second_weight}};
}

TEST(SeveralSources, are_mixed_by_weight_throughout) {
  BatchSchedule schedule(two_sources(3, 1), {.global_batch = 4});
  EXPECT_THAT(all_of(schedule), ElementsAre(0, 1, 9, 2, 3, 4, 10, 5, 6, 7, 11, 8));
}

TEST(SeveralSources, keep_their_proportions_after_one_is_exhausted) {
  BatchSchedule schedule(two_sources(1, 1), {.global_batch = 5});
  EXPECT_THAT(all_of(schedule), ElementsAre(0, 9, 1, 10, 2, 11, 3, 4, 5, 6, 7, 8));
}

TEST(SeveralSources, have_their_own_epochs) {
  BatchSchedule schedule({{.samples = 4}, {.samples = 2, .epochs = 2}}, {.global_batch = 3});
  EXPECT_THAT(all_of(schedule), ElementsAre(0, 4, 1, 5, 2, 4, 3, 5));
  EXPECT_EQ(schedule.num_steps(), 3);
}

TEST(SeveralSources, share_sizes_by_weight_if_samples_have_sizes) {
  // One long sample for every ten short ones: at any time, both sources have contributed equally.
  std::vector<ScheduledSource> sources{{.samples = 5}, {.samples = 50}};
  sources[0].size = [](std::int64_t) { return 100; };
  sources[1].size = [](std::int64_t) { return 10; };
  BatchSchedule schedule(sources, {.global_batch = 11});
  for (std::int64_t step = 0; step < 5; ++step) {
    const Positions share = schedule.share_of(step, 0, 1);
    EXPECT_EQ(std::ranges::count_if(share, [](std::int64_t p) { return p < 5; }), 1) << step;
  }
}

TEST(SeveralSources, ignore_the_weight_of_a_single_source) {
  const ScheduleSettings settings{.global_batch = 4, .epochs = 3, .shuffle = true, .seed = 5};
  BatchSchedule plain(10, settings);
  BatchSchedule weighed({{.samples = 10, .weight = 7}}, settings);
  EXPECT_EQ(all_of(plain), all_of(weighed));
}

TEST(SeveralSources, reject_sources_that_cannot_be_mixed) {
  EXPECT_THROW(BatchSchedule(two_sources(0, 1), {}), ConfigError);
  EXPECT_THROW(BatchSchedule(two_sources(std::int64_t{1} << 31, 1), {}), ConfigError);
  EXPECT_THROW(BatchSchedule({{.samples = 4}, {.samples = 0}}, {}), InputError);
  EXPECT_THROW(BatchSchedule({{.samples = 4, .epochs = 0}}, {}), ConfigError);
  EXPECT_THROW(BatchSchedule({{.samples = 1 << 30, .epochs = std::int64_t{1} << 40}}, {}), ConfigError);
}

struct Drawn {
  std::vector<ScheduledSource> sources;
  ScheduleSettings settings;
};

Drawn draw_settings() {
  Drawn drawn;
  const auto count = *rc::gen::inRange<std::size_t>(1, 5);
  for (std::size_t i = 0; i < count; ++i) {
    ScheduledSource source;
    source.samples = *rc::gen::inRange<std::int64_t>(1, 30);
    source.epochs = *rc::gen::inRange<std::int64_t>(1, 4);
    source.weight = *rc::gen::inRange<std::int64_t>(1, 2000);
    if (*rc::gen::arbitrary<bool>()) source.size = [](std::int64_t p) { return (p * 7 + 3) % 11; };
    drawn.sources.push_back(source);
  }
  drawn.settings.global_batch = *rc::gen::inRange<std::int64_t>(1, 20);
  drawn.settings.epochs = *rc::gen::inRange<std::int64_t>(1, 3);
  drawn.settings.shuffle = *rc::gen::arbitrary<bool>();
  drawn.settings.seed = *rc::gen::arbitrary<std::uint64_t>();
  return drawn;
}

RC_GTEST_PROP(SeveralSources, give_every_sample_as_often_as_its_sources_epochs_say, ()) {
  const Drawn drawn = draw_settings();
  BatchSchedule schedule(drawn.sources, drawn.settings);
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t position : all_of(schedule)) ++times[position];
  std::int64_t position = 0;
  for (const ScheduledSource& source : drawn.sources) {
    for (std::int64_t i = 0; i < source.samples; ++i, ++position)
      RC_ASSERT(times[position] == source.epochs * drawn.settings.epochs);
  }
  RC_ASSERT(std::ssize(times) == position);
}

RC_GTEST_PROP(SeveralSources, run_through_all_samples_of_one_before_any_comes_again, ()) {
  const Drawn drawn = draw_settings();
  BatchSchedule schedule(drawn.sources, drawn.settings);
  std::int64_t first = 0;
  const Positions all = all_of(schedule);
  for (const ScheduledSource& source : drawn.sources) {
    Positions own;
    std::ranges::copy_if(all, std::back_inserter(own),
                         [&](std::int64_t p) { return first <= p && p < first + source.samples; });
    for (auto begin = own.begin(); begin != own.end(); begin += source.samples)
      RC_ASSERT(std::ssize(std::set<std::int64_t>(begin, begin + source.samples)) == source.samples);
    first += source.samples;
  }
}

RC_GTEST_PROP(SeveralSources, give_steps_independent_of_ranks_and_earlier_requests, ()) {
  const Drawn drawn = draw_settings();
  BatchSchedule schedule(drawn.sources, drawn.settings);
  const auto ranks = *rc::gen::inRange(1, 5);
  std::vector<Positions> whole;
  for (std::int64_t step = 0; step < schedule.num_steps(); ++step)
    whole.push_back(schedule.share_of(step, 0, 1));
  for (int look = 0; look < 10; ++look) {
    const auto step = *rc::gen::inRange<std::int64_t>(0, schedule.num_steps());
    BatchSchedule fresh(drawn.sources, drawn.settings);
    Positions again;
    for (int rank = 0; rank < ranks; ++rank) {
      const Positions share = (rank % 2 == 0 ? schedule : fresh).share_of(step, rank, ranks);
      again.insert(again.end(), share.begin(), share.end());
    }
    RC_ASSERT(again == whole[static_cast<std::size_t>(step)]);
  }
}

RC_GTEST_PROP(SeveralSources, have_their_shares_to_within_half_a_sample_while_both_of_two_last, ()) {
  const std::vector<ScheduledSource> sources{
      {.samples = 200, .weight = *rc::gen::inRange<std::int64_t>(1, 50)},
      {.samples = 200, .weight = *rc::gen::inRange<std::int64_t>(1, 50)}};
  BatchSchedule schedule(sources, {.global_batch = 1});
  const auto weights = static_cast<double>(sources[0].weight + sources[1].weight);
  std::int64_t of_first = 0;
  for (std::int64_t n = 1; n <= 200; ++n) {
    of_first += schedule.share_of(n - 1, 0, 1).front() < 200 ? 1 : 0;
    const double share = static_cast<double>(n * sources[0].weight) / weights;
    RC_ASSERT(std::abs(static_cast<double>(of_first) - share) <= 0.5 + 1e-9);
  }
}

}  // namespace
}  // namespace evenkeel
