#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

// Simulates a power loss, after which the disk has only what was flushed: a copy of LMDB's file as of its
// latest flush.
namespace {

std::mutex mutex;
std::function<bool(int)> at_flush;  // false if the flush must fail

int flush(int descriptor) {
  const std::lock_guard lock(mutex);
  if (at_flush) {
    if (at_flush(descriptor)) return 0;
    errno = EIO;
    return -1;
  }
  return reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}

}  // namespace

// Replaces the function of the C library for everything that this program links.
extern "C" int fdatasync(int descriptor) {
  return flush(descriptor);
}

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing_support::groups_of;
using testing_support::received;
using testing_support::rollout_line;
using testing_support::ScratchFolder;

bool has_event(const Store& store, const std::string& words) {
  bool has_it = false;
  store.read_events(
      [&](std::int64_t, std::string_view event) { has_it |= event.find(words) != std::string_view::npos; });
  return has_it;
}

class PowerLoss : public testing::Test {
 protected:
  PowerLoss() {
    const std::lock_guard lock(mutex);
    at_flush = [this](int descriptor) {
      const auto file = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
      if (file != std::filesystem::canonical(folder_) / "data.mdb") return true;
      std::this_thread::sleep_for(takes_);
      if (good_flushes_-- == 0) return false;
      copy(folder_, disk());
      return true;
    };
  }
  ~PowerLoss() override {
    const std::lock_guard lock(mutex);
    at_flush = nullptr;
  }

  [[nodiscard]] std::unique_ptr<Store> open() const { return open_lmdb_store(folder_, least_lmdb_capacity); }
  void set_time_of_a_flush(std::chrono::milliseconds time) {
    const std::lock_guard lock(mutex);
    takes_ = time;
  }
  /// Makes the flush after `good_ones` successful ones fail.
  void fail_a_flush_after(int good_ones) {
    const std::lock_guard lock(mutex);
    good_flushes_ = good_ones;
  }
  /// Simulates that this process is killed now: from here on, uses another folder, which has everything
  /// written so far.
  void kill() {
    const std::lock_guard lock(mutex);
    const std::filesystem::path left = std::exchange(folder_, scratch_ / "left");
    copy(left, folder_);
    std::filesystem::remove_all(disk());
  }
  /// Returns whether the event would exist if the power were lost now.
  bool would_have_event(const std::string& words) {
    std::filesystem::path after;
    {
      const std::lock_guard lock(mutex);
      after = scratch_ / ("after" + std::to_string(++losses_));
      copy(disk(), after);
    }
    return has_event(*open_lmdb_store(after, least_lmdb_capacity), words);
  }

 private:
  static void copy(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::filesystem::create_directories(to);
    for (const auto& file : std::filesystem::directory_iterator(from)) {
      if (file.path().filename() == "lock.mdb") continue;
      std::filesystem::copy_file(file.path(), to / file.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
  [[nodiscard]] std::filesystem::path disk() const { return scratch_ / "disk"; }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_ / "store";
  std::chrono::milliseconds takes_{0};
  int good_flushes_ = -1;
  int losses_ = 0;
};

TEST_F(PowerLoss, preserves_acknowledged_samples) {
  Buffer buffer(open(), groups_of(1));
  for (const char* const uid : {"first", "second", "third"}) {
    buffer.accept_samples(received(rollout_line(uid, 0)));
    EXPECT_TRUE(would_have_event(uid)) << uid;
  }
}

TEST_F(PowerLoss, preserves_samples_of_requests_that_share_flushes) {
  Buffer buffer(open(), groups_of(1));
  std::vector<std::thread> producers;
  for (int producer = 0; producer < 4; ++producer) {
    producers.emplace_back([&, producer] {
      for (int i = 0; i < 3; ++i) {
        const std::string uid = "of " + std::to_string(producer) + ": " + std::to_string(i);
        buffer.accept_samples(received(rollout_line(uid, 0)));
        EXPECT_TRUE(would_have_event(uid)) << uid;
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
}

TEST_F(PowerLoss, preserves_every_step_that_was_returned_to_a_job) {
  Buffer buffer(open(), groups_of(1));
  buffer.accept_samples(received(rollout_line("a", 0)));
  set_time_of_a_flush(100ms);
  std::thread former([&] { buffer.form_step({0, 0, {{"a", 1}}, {}, {}}); });
  EXPECT_TRUE(buffer.wait_for_step(0, 20s).step);
  EXPECT_TRUE(would_have_event("formed"));
  former.join();
}

TEST_F(PowerLoss, preserves_content_that_was_written_by_a_killed_buffer_and_read_by_the_next) {
  const auto store = open();
  StoreChange change;
  change.events = {{1, "written, and not flushed"}};
  store->commit(change);
  EXPECT_FALSE(would_have_event("written"));
  kill();
  const auto next = open();
  next->make_durable();
  EXPECT_TRUE(has_event(*next, "written"));
  EXPECT_TRUE(would_have_event("written"));
}

TEST_F(PowerLoss, preserves_samples_acknowledged_after_a_failed_flush) {
  Buffer buffer(open(), groups_of(1));
  for (const int good_ones : {0, 1}) {  // flushes of a transaction, and of its root
    const std::string uid = "after " + std::to_string(good_ones);
    fail_a_flush_after(good_ones);
    EXPECT_THROW(buffer.accept_samples(received(rollout_line(uid, 0))), IoError);
    const Intake again = buffer.accept_samples(received(rollout_line(uid, 0)));
    EXPECT_EQ(again.accepted + again.duplicates, 1);
    EXPECT_TRUE(would_have_event(uid));
  }
}

}  // namespace
}  // namespace evenkeel
