#include "job/output/run_lock.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "support/run_program.hpp"

// The lock of an output folder, which a job takes before its first step.

namespace {

std::atomic<int> waits_for_the_disk = 0;

int count_and_call(const char* name, int descriptor) {
  ++waits_for_the_disk;
  const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  return real(descriptor);
}

}  // namespace

// Replaces the function of the C library for everything that this program links.
extern "C" int fsync(int descriptor) {
  return count_and_call("fsync", descriptor);
}
extern "C" int fdatasync(int descriptor) {
  return count_and_call("fdatasync", descriptor);
}

namespace evenkeel {
namespace {

using testing::Eq;
using testing::Optional;
using testing_support::ScratchFolder;

const RunIdentity someone{"0123456789abcdef", "2026-01-01T00:00:00Z", "here", 1, 2};

std::optional<int> rank_named_in(const std::filesystem::path& folder) {
  const std::optional<RunIdentity> named = read_lock_identity(folder);
  return named ? std::optional(named->rank) : std::nullopt;
}

// All ranks of a job wait for the one that takes the lock, and if the disk is busy, that can take a minute.
TEST(RunLock, does_not_wait_for_the_disk) {
  const ScratchFolder scratch;
  const int before = waits_for_the_disk;
  const std::optional<RunLock> lock = RunLock::try_acquire(scratch.path(), someone);
  ASSERT_TRUE(lock);
  EXPECT_EQ(waits_for_the_disk, before);
}

TEST(RunLock, names_its_run_and_excludes_others_until_it_is_released) {
  const ScratchFolder scratch;
  {
    const std::optional<RunLock> lock = RunLock::try_acquire(scratch.path(), someone);
    ASSERT_TRUE(lock);
    EXPECT_THAT(rank_named_in(scratch.path()), Optional(Eq(2)));
    ASSERT_TRUE(lock->blocks_other_runs()) << "the scratch folder's file system knows no locks";
    EXPECT_TRUE(is_locked(scratch.path()));
    EXPECT_FALSE(RunLock::try_acquire(scratch.path(), someone));
  }
  EXPECT_FALSE(is_locked(scratch.path()));
  EXPECT_TRUE(RunLock::try_acquire(scratch.path(), someone));
}

}  // namespace
}  // namespace evenkeel
