#include "evenkeel/watchdog/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

constexpr double limit = 2;
constexpr auto longer = 3000ms;  // longer than the limit

/// Records the calls that a rank's watchdog made.
class Heard {
 public:
  [[nodiscard]] WatchdogSettings settings() {
    return {limit,
            [this](const WatchdogReport& report) {
              const std::lock_guard lock(mutex_);
              ++told_;
              lines_ = report.ranks.size();
              never_heard_ = lines_ - std::ranges::count(report.ranks, true, &WatchedRank::was_heard);
            },
            [this](const WatchdogReport& report) {
              const std::lock_guard lock(mutex_);
              message_ = report.message;
              has_ended_ = true;
              changed_.notify_all();
            }};
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_ended_; });
  }
  [[nodiscard]] bool has_ended() {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }
  /// Returns a number that is complete once the watchdog has ended.
  [[nodiscard]] std::size_t told() const { return told_; }
  [[nodiscard]] std::size_t lines() const { return lines_; }
  [[nodiscard]] std::size_t never_heard() const { return never_heard_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t told_ = 0;
  std::size_t lines_ = 0;
  std::size_t never_heard_ = 0;
  bool has_ended_ = false;
  std::string message_;
};

void use_processor(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;)
    continue;
}

/// Stops all threads of this process.
void stop_for_more_than_the_limit() {
  const std::string self = std::to_string(getpid());
  ASSERT_EQ(std::system(("(sleep 4; kill -CONT " + self + ") </dev/null >/dev/null 2>&1 &").c_str()), 0);
  raise(SIGSTOP);
}

TEST(Watchdog, reports_a_missing_rank_once_and_ends_all_ranks) {
  const boost::mpi::communicator world;
  if (world.size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  const Communicator group(world);
  for (const int away : {0, world.size() / 2, world.size() - 1}) {
    Heard heard;
    {
      const Watchdog watchdog(group, heard.settings());
      if (world.rank() == away) heard.wait();
      group.barrier();  // the others wait here until the rank arrives after all
      heard.wait();
    }
    EXPECT_EQ(boost::mpi::all_reduce(world, heard.told(), std::plus<>()), 1U) << "one rank tells";
    EXPECT_THAT(heard.message(),
                AllOf(StartsWith("no progress for"),
                      HasSubstr("while others wait for rank " + std::to_string(away) + " (")));
    EXPECT_EQ(heard.lines(), heard.told() * static_cast<std::size_t>(world.size())) << "of all ranks";
  }
}

TEST(Watchdog, detects_a_rank_stopped_at_the_start) {
  const boost::mpi::communicator world;
  if (world.size() == 1) GTEST_SKIP() << "nobody is there to miss it";
  for (const int away : {0, world.size() / 2, world.size() - 1}) {
    Heard heard;
    {
      const Watchdog watchdog(world, heard.settings());
      if (world.rank() == away) stop_for_more_than_the_limit();
      heard.wait();
    }
    EXPECT_THAT(heard.message(), StartsWith("rank " + std::to_string(away) + " (host"));
    EXPECT_THAT(heard.message(), HasSubstr("sent no heartbeat"));
    EXPECT_EQ(boost::mpi::all_reduce(world, heard.told(), std::plus<>()), 1U) << "one rank tells";
    EXPECT_EQ(heard.lines(), heard.told() * static_cast<std::size_t>(world.size())) << "of all ranks";
    EXPECT_EQ(heard.never_heard(), 0U);
  }
}

TEST(Watchdog, detects_that_the_watchdog_of_rank_0_has_ended) {
  const boost::mpi::communicator world;
  const Communicator group(world);
  Heard heard;
  auto watchdog = std::make_unique<Watchdog>(world, heard.settings());
  if (world.rank() == 0) {
    watchdog.reset();
    std::this_thread::sleep_for(longer);
  }
  group.barrier();
  if (world.rank() == 0) return;
  heard.wait();
  EXPECT_THAT(heard.message(), AllOf(HasSubstr("others wait for rank 0 (host"), HasSubstr("has ended")));
}

TEST(Watchdog, tolerates_a_rank_that_computes_for_long) {
  const boost::mpi::communicator world;
  const Communicator group(world);
  Heard heard;
  const Watchdog watchdog(group, heard.settings());
  if (world.rank() == world.size() - 1) use_processor(longer);
  group.barrier();
  EXPECT_FALSE(heard.has_ended());
  group.barrier();  // no rank may leave before all have checked
}

TEST(Watchdog, tolerates_a_rank_that_reports_progress) {
  const boost::mpi::communicator world;
  const Communicator group(world);
  Heard heard;
  const Watchdog watchdog(group, heard.settings());
  if (world.rank() == 0) {
    for (auto time = 0ms; time < longer; time += 100ms) {
      std::this_thread::sleep_for(100ms);
      Watchdog::record_progress();
    }
  }
  group.barrier();
  EXPECT_FALSE(heard.has_ended());
  group.barrier();
}

TEST(Watchdog, tolerates_a_sleeping_job_if_no_rank_waits) {
  const boost::mpi::communicator world;
  Heard heard;
  const Watchdog watchdog(world, heard.settings());
  std::this_thread::sleep_for(longer);
  EXPECT_FALSE(heard.has_ended());
  Communicator(world).barrier();
}

TEST(Watchdog, can_be_created_one_after_another) {
  const boost::mpi::communicator world;
  for (int i = 0; i < 20; ++i) {
    Heard heard;
    const Watchdog watchdog(world, heard.settings());
    EXPECT_FALSE(heard.has_ended());
  }
}

TEST(Watchdog, detects_a_rank_missing_at_the_first_meeting) {
  const boost::mpi::communicator world;
  if (world.size() == 1) GTEST_SKIP() << "nobody is there to miss it";
  for (const int away : {0, world.size() / 2, world.size() - 1}) {
    Heard heard;
    {
      Watchdog watchdog(OneRank{world.rank()}, heard.settings());
      if (world.rank() == away) std::this_thread::sleep_for(longer);
      watchdog.start_watching(world);
      if (world.rank() != away) heard.wait();
    }
    EXPECT_EQ(heard.has_ended(), world.rank() != away) << "nobody knows where it is";
    EXPECT_EQ(boost::mpi::all_reduce(world, heard.told(), std::plus<>()), 1U) << "one rank tells";
    if (world.rank() != (away == 0 ? 1 : 0)) continue;
    EXPECT_EQ(heard.told(), 1U);
    if (away == 0) {
      EXPECT_THAT(heard.message(),
                  AllOf(StartsWith("rank 1 (host "),
                        HasSubstr("Last activity: watchdogs meet, waiting for other ranks in MPI_")));
    } else {
      EXPECT_THAT(heard.message(), AllOf(StartsWith("rank"), HasSubstr(std::to_string(away)),
                                         HasSubstr("not joined the watchdogs of the other ranks")));
    }
  }
}

TEST(Watchdog, detects_a_rank_stopped_before_the_first_meeting) {
  const boost::mpi::communicator world;
  if (world.size() == 1) GTEST_SKIP() << "nobody is there to miss it";
  const Communicator group(world);
  Heard heard;
  {
    Watchdog watchdog(OneRank{world.rank()}, heard.settings());
    if (world.rank() == world.size() - 1) stop_for_more_than_the_limit();
    group.barrier();  // like ranks that report their activity to each other
    watchdog.start_watching(group);
    if (world.rank() == 0) heard.wait();
  }
  if (world.rank() != 0) return;
  EXPECT_THAT(heard.message(),
              AllOf(StartsWith("rank 0 (host "), HasSubstr("waiting for other ranks in MPI_Allreduce"),
                    HasSubstr("the watchdogs have not connected yet")));
}

TEST(Watchdog, tolerates_ranks_that_arrive_one_after_another) {
  const boost::mpi::communicator world;
  Heard heard;
  Watchdog watchdog(OneRank{world.rank()}, heard.settings());
  std::this_thread::sleep_for(world.rank() * 250ms);
  watchdog.start_watching(world);
  EXPECT_FALSE(heard.has_ended());
  Communicator(world).barrier();
}

TEST(Watchdog, can_change_its_limit) {
  const boost::mpi::communicator world;
  const Communicator group(world);
  for (const double seconds : {100.0, 0.0}) {
    Heard heard;
    Watchdog watchdog(OneRank{world.rank()}, heard.settings());
    watchdog.start_watching(group);
    watchdog.set_seconds(seconds);
    if (world.rank() == 0) std::this_thread::sleep_for(longer);
    group.barrier();
    EXPECT_FALSE(heard.has_ended());
  }
}

TEST(Watchdog, with_zero_seconds_is_inactive_until_a_limit_is_set) {
  const boost::mpi::communicator world;
  const Communicator group(world);
  Heard heard;
  WatchdogSettings settings = heard.settings();
  settings.seconds = 0;
  Watchdog watchdog(OneRank{world.rank()}, settings);
  if (world.rank() == 0) std::this_thread::sleep_for(longer);
  watchdog.start_watching(group);
  EXPECT_FALSE(heard.has_ended());
  if (world.size() == 1) return;
  watchdog.set_seconds(limit);
  if (world.rank() == 0) heard.wait();
  group.barrier();
  heard.wait();
  EXPECT_THAT(heard.message(), StartsWith("no progress for"));
}

TEST(Watchdog, with_zero_seconds_is_inactive_and_with_fewer_is_refused_on_every_rank) {
  const boost::mpi::communicator world;
  EXPECT_NO_THROW(Watchdog(world, {0}));
  const bool bad = world.rank() == world.size() - 1;
  EXPECT_THROW(Watchdog(world, {bad ? -1.0 : 0.0}), InputError);
}

TEST(Watchdog, is_refused_without_ranks_of_one_group) {
  EXPECT_THROW(Watchdog(Communicator(), {1}), MeshError);
}

}  // namespace
}  // namespace evenkeel
