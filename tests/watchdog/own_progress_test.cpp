#include "watchdog/own_progress.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void use_processor_for(double seconds) {
  for (const double begin = processor_seconds(); processor_seconds() - begin < seconds;) continue;
}

void use_processor() {
  use_processor_for(0.1);
}

void sleep() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// Returns whether a process is considered to make progress while its only thread does this work. Another
// thread takes the samples.
bool makes_progress(const std::function<void()>& work, double seconds = 0.1) {
  OwnProgress progress;
  std::jthread([&] { progress.sample(seconds); }).join();
  const std::uint64_t before = progress.count();
  work();
  std::jthread([&] { progress.sample(seconds); }).join();
  return progress.count() != before;
}

TEST(OwnProgress, processor_time_is_progress) {
  const Phase phase("work");
  EXPECT_TRUE(makes_progress(use_processor));
}

// This is like a thread that starts work on a device and sleeps until it is done.
TEST(OwnProgress, a_fiftieth_of_a_processor_is_progress) {
  const Phase phase("work");
  EXPECT_TRUE(makes_progress([] { use_processor_for(0.02); }, 1));
}

TEST(OwnProgress, a_sleeping_thread_shows_no_progress) {
  const Phase phase("work");
  EXPECT_FALSE(makes_progress(sleep));
}

// torch has one thread per group, which polls a hundred times per second.
TEST(OwnProgress, many_threads_that_wake_up_occasionally_show_no_progress) {
  const Phase phase("work");
  constexpr int threads = 20;
  std::barrier have_woken_up(threads + 1);
  std::barrier are_seen(threads + 1);
  std::vector<std::jthread> library;
  const auto wake_up = [&] {
    for (int i = 0; i < threads; ++i) {
      library.emplace_back([&] {
        use_processor_for(0.002);
        have_woken_up.arrive_and_wait();
        are_seen.arrive_and_wait();
      });
    }
    have_woken_up.arrive_and_wait();
  };
  EXPECT_FALSE(makes_progress(wake_up, 1));
  are_seen.arrive_and_wait();
}

TEST(OwnProgress, a_thread_that_worked_and_ended_is_progress) {
  const Phase phase("work");
  EXPECT_TRUE(makes_progress([] { std::jthread(use_processor).join(); }));
}

TEST(OwnProgress, processor_time_in_a_wait_for_ranks_is_not_progress) {
  const Phase phase("gather");
  const Waiting waiting("MPI_Allreduce");
  EXPECT_FALSE(makes_progress(use_processor));
}

TEST(OwnProgress, bytes_that_are_read_or_written_are_progress_also_in_a_wait) {
  const testing_support::ScratchFolder scratch;
  const Phase phase("exchange");
  const Waiting waiting("MPI_Waitall");
  EXPECT_TRUE(makes_progress([&] { std::ofstream(scratch / "file") << std::string(1 << 16, 'x'); }));
}

TEST(OwnProgress, phases_waits_and_recorded_progress_count) {
  const Phase phase("step");
  EXPECT_TRUE(makes_progress([] { const Phase inner("plan"); }));
  EXPECT_TRUE(makes_progress([] { const Waiting waiting("MPI_Bcast"); }));
  EXPECT_TRUE(makes_progress([] { Phase::switch_to("exchange"); }));
  EXPECT_TRUE(makes_progress(record_progress));
}

TEST(OwnProgress, polling_is_not_progress) {
  const Phase phase("step");
  const Waiting waiting("MPI_Allreduce");
  OwnProgress progress;
  std::jthread([&] {
    progress.sample(0.1);
    const std::uint64_t before = progress.count();
    for (int i = 0; i < 500; ++i) progress.sample(0.1);
    EXPECT_EQ(progress.count(), before);
  }).join();
}

TEST(Activity, is_restored_at_the_end_of_a_scope) {
  const Phase outer("step", 7);
  const auto own = [] {
    for (const ThreadActivity& thread : activities()) {
      if (thread.phase != nullptr) return thread;
    }
    return ThreadActivity{};
  };
  {
    const Phase inner("plan");
    const Waiting waiting("MPI_Bcast");
    EXPECT_STREQ(own().phase, "plan");
    EXPECT_EQ(own().step, 7);
    EXPECT_STREQ(own().wait, "MPI_Bcast");
    EXPECT_EQ(own().whom, WaitFor::ranks);
  }
  EXPECT_STREQ(own().phase, "step");
  EXPECT_EQ(own().wait, nullptr);
}

TEST(Activity, of_more_threads_than_are_recorded_is_ignored) {
  std::atomic<int> ready = 0;
  std::array<std::jthread, max_reported_threads + 3> threads;
  for (std::jthread& thread : threads) {
    thread = std::jthread([&] {
      const Phase phase("work");
      for (++ready; ready < std::ssize(threads);) std::this_thread::yield();
    });
  }
}

}  // namespace
}  // namespace evenkeel
