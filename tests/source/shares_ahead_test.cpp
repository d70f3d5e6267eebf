#include "source/shares_ahead.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

namespace evenkeel {
namespace {

using testing::Each;
using testing::Le;

using Entries = std::vector<std::int64_t>;

constexpr std::int64_t num_samples = 1003;
constexpr std::int64_t global_batch = 20;

BatchSchedule shuffled_schedule(std::int64_t epochs = 1) {
  return {num_samples, {.global_batch = global_batch, .epochs = epochs, .shuffle = true}};
}

/// A rank that takes steps, with its own schedule, like real ranks.
class Rank {
 public:
  Rank(SharesAhead::Reader reader, std::int64_t window, std::int64_t epochs = 1)
      : schedule_(shuffled_schedule(epochs)),
        steps_(schedule_, num_samples, std::move(reader), window,
               [this](std::span<const std::int64_t> entries) {
                 asked_.emplace_back(entries.begin(), entries.end());
               }) {}

  Entries take(std::int64_t step) {
    asked_.clear();
    return steps_.fetch_share(step);
  }
  /// Returns what was requested when the last step was taken.
  [[nodiscard]] const std::vector<Entries>& asked() const noexcept { return asked_; }

 private:
  BatchSchedule schedule_;
  std::vector<Entries> asked_;
  SharesAhead steps_;
};

/// Returns what the ranks of one node request of windows, step by step: everything except a rank's own next
/// share.
std::vector<Entries> windows_of(const std::vector<int>& node, int num_ranks, std::int64_t window) {
  BatchSchedule schedule = shuffled_schedule();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (const int rank : node)
    ranks.push_back(std::make_unique<Rank>(SharesAhead::Reader{rank, num_ranks, node}, window));
  std::vector<Entries> windows;
  for (std::int64_t step = 0; step < schedule.num_steps(); ++step) {
    Entries& of_step = windows.emplace_back();
    for (std::size_t r = 0; r < node.size(); ++r) {
      static_cast<void>(ranks[r]->take(step));
      for (const Entries& asked : ranks[r]->asked()) {
        const auto is_share = [&](std::int64_t s) {
          return s < schedule.num_steps() && asked == schedule.share_of(s, node[r], num_ranks);
        };
        if (is_share(step) || is_share(step + 1)) continue;
        EXPECT_TRUE(std::ranges::is_sorted(asked));
        of_step.insert(of_step.end(), asked.begin(), asked.end());
      }
    }
  }
  return windows;
}

Entries of_node(const std::vector<int>& node, int num_ranks, std::int64_t step) {
  BatchSchedule schedule = shuffled_schedule();
  Entries entries;
  for (const int rank : node) {
    const Entries share = schedule.share_of(step, rank, num_ranks);
    entries.insert(entries.end(), share.begin(), share.end());
  }
  return entries;
}

TEST(SharesAhead, returns_the_shares_of_the_schedule_with_any_window) {
  BatchSchedule schedule = shuffled_schedule(3);
  for (const std::int64_t window : {1, 2, 7, 1000}) {
    Rank rank({1, 3, {0, 1}}, window, 3);
    for (std::int64_t step = 0; step < schedule.num_steps(); ++step)
      EXPECT_EQ(rank.take(step), schedule.share_of(step, 1, 3));
    for (const std::int64_t step : {5, 6, 7, 7, 0, 152, 100, 101, 152})
      EXPECT_EQ(rank.take(step), schedule.share_of(step, 1, 3));
  }
}

TEST(SharesAhead, without_a_window_prefetches_only_the_next_share) {
  BatchSchedule schedule = shuffled_schedule();
  Rank rank({1, 3, {0, 1, 2}}, 1);
  static_cast<void>(rank.take(0));
  EXPECT_EQ(rank.asked(), (std::vector<Entries>{schedule.share_of(0, 1, 3), schedule.share_of(1, 1, 3)}));
  static_cast<void>(rank.take(1));
  EXPECT_EQ(rank.asked(), std::vector<Entries>{schedule.share_of(2, 1, 3)});
  static_cast<void>(rank.take(schedule.num_steps() - 1));
  EXPECT_EQ(rank.asked(), std::vector<Entries>{schedule.share_of(schedule.num_steps() - 1, 1, 3)});
}

TEST(SharesAhead, the_ranks_of_a_node_prefetch_each_sample_once) {
  const std::vector<int> node{1, 2, 4};
  const std::vector<Entries> windows = windows_of(node, 5, 16);
  std::map<std::int64_t, std::int64_t> asked_at;
  for (std::int64_t step = 0; step < std::ssize(windows); ++step) {
    for (const std::int64_t entry : windows[static_cast<std::size_t>(step)])
      EXPECT_TRUE(asked_at.emplace(entry, step).second) << entry;
  }
  std::size_t read = 0;
  for (std::int64_t step = 2; step < std::ssize(windows); ++step) {  // the first two are requested as shares
    for (const std::int64_t entry : of_node(node, 5, step)) {
      ASSERT_TRUE(asked_at.contains(entry)) << entry;
      EXPECT_LT(asked_at[entry], step);
      ++read;
    }
  }
  EXPECT_EQ(asked_at.size(), read);  // and not for other shares
}

TEST(SharesAhead, prefetches_at_most_two_steps_at_once) {
  const std::vector<int> node{0, 1};
  std::vector<std::size_t> sizes;
  for (const Entries& window : windows_of(node, 2, 16)) sizes.push_back(window.size());
  EXPECT_THAT(sizes, Each(Le(2 * global_batch + node.size())));
}

TEST(SharesAhead, windows_grow_to_prefetch_neighbors_together) {
  const auto mean_distance = [](const Entries& sorted) {
    return static_cast<double>(sorted.back() - sorted.front()) / static_cast<double>(sorted.size() - 1);
  };
  const std::vector<Entries> windows = windows_of({0}, 1, 16);
  // Requests are made 2, 4 and 8 steps ahead; from here on, 16 steps are requested, as 8 and then 16.
  const std::int64_t full = 14;
  EXPECT_LT(mean_distance(windows[full]), mean_distance(windows[0]) / 3);
}

}  // namespace
}  // namespace evenkeel
