// A watchdog through the C API.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "c/held.hpp"

namespace evenkeel::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The calls made by a rank's watchdog.
struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> told, ended;

  void wait_for_the_end() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !ended.empty(); });
  }
};

extern "C" void note_what_is_told(const char* text, void* context) {
  auto& calls = *static_cast<Calls*>(context);
  const std::lock_guard lock(calls.mutex);
  calls.told.emplace_back(text);
}

extern "C" void note_the_end(const char* text, void* context) {
  auto& calls = *static_cast<Calls*>(context);
  const std::lock_guard lock(calls.mutex);
  calls.ended.emplace_back(text);
  calls.changed.notify_all();
}

Held<evenkeel_watchdog> watchdog_of(double seconds, Calls& calls) {
  return made<evenkeel_watchdog>([&](auto** watchdog) {
    return evenkeel_watchdog_create(c_ranks().get(), seconds, &note_what_is_told, &note_the_end, &calls,
                                    watchdog);
  });
}

TEST(CWatchdog, calls_the_program_on_all_ranks_when_one_misses_a_step) {
  const boost::mpi::communicator world;
  if (world.size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  const Held<evenkeel_config> config = c_config("");
  const auto service = made<evenkeel_service>(
      [&](auto** out) { return evenkeel_service_create(c_ranks().get(), config.get(), out); });
  const auto none = made<evenkeel_samples>(
      [](auto** samples) { return evenkeel_samples_create(0, nullptr, nullptr, nullptr, nullptr, samples); });
  Calls calls;
  const Held<evenkeel_watchdog> watchdog = watchdog_of(2, calls);
  const int away = world.size() - 1;
  if (world.rank() == away) calls.wait_for_the_end();
  const auto step = made<evenkeel_step>(
      [&](auto** out) { return evenkeel_service_step(service.get(), none.get(), nullptr, out); });
  calls.wait_for_the_end();
  ASSERT_EQ(calls.ended.size(), 1U);
  EXPECT_THAT(calls.ended.front(), HasSubstr("while others wait for rank " + std::to_string(away) + " ("));
  for (const std::string& told : calls.told) EXPECT_THAT(told, StartsWith(calls.ended.front()));
  EXPECT_EQ(boost::mpi::all_reduce(world, calls.told.size(), std::plus<>()), 1U) << "one rank tells";
}

TEST(CWatchdog, does_not_blame_a_rank_that_reports_progress) {
  const boost::mpi::communicator world;
  Calls calls;
  const Held<evenkeel_watchdog> watchdog = watchdog_of(60, calls);
  evenkeel_watchdog_record_progress();
  world.barrier();
  const std::lock_guard lock(calls.mutex);
  EXPECT_TRUE(calls.ended.empty());
}

TEST(CWatchdog, returns_the_wrong_arguments_of_one_rank_on_all_ranks) {
  const boost::mpi::communicator world;
  const bool is_bad = world.rank() == world.size() - 1;
  evenkeel_watchdog* watchdog = nullptr;
  EXPECT_EQ(evenkeel_watchdog_create(c_ranks().get(), is_bad ? -1 : 60, nullptr, nullptr, nullptr, &watchdog),
            EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(watchdog, nullptr);
  EXPECT_EQ(
      evenkeel_watchdog_create(c_ranks().get(), 60, nullptr, nullptr, nullptr, is_bad ? nullptr : &watchdog),
      EVENKEEL_ERROR_INPUT);
  EXPECT_THAT(evenkeel_last_error_message(), HasSubstr("watchdog"));
  EXPECT_EQ(watchdog, nullptr);
  EXPECT_EQ(evenkeel_watchdog_create(nullptr, 60, nullptr, nullptr, nullptr, &watchdog),
            EVENKEEL_ERROR_ARGUMENT);
  evenkeel_watchdog_destroy(nullptr);
}

}  // namespace
}  // namespace evenkeel::test
