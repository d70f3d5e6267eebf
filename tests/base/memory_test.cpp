#include "base/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// A root folder with the files of a simulated system.
class System {
 public:
  void tell(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    write_text(root_ / path, text);
  }
  [[nodiscard]] std::optional<std::int64_t> available() const { return available_memory(root_.path()); }

 private:
  ScratchFolder root_;
};

const std::string machine =
    "MemTotal:        6400 kB\nMemFree:          10 kB\nMemAvailable:    1100 kB\nSwapTotal:  0 "
    "kB\nSwapFree:  0 kB\n"
    "HugePages_Total:       0\n";

TEST(AvailableMemory, is_the_memory_that_can_be_freed_minus_a_64th_of_the_total) {
  const System system;
  system.tell("proc/meminfo", machine);
  EXPECT_EQ(system.available(), 1000 * 1024);
}

TEST(AvailableMemory, counts_swap) {
  const System system;
  system.tell("proc/meminfo",
              "MemTotal: 3200 kB\nMemAvailable: 100 kB\nSwapTotal: 3200 kB\nSwapFree: 1000 kB\n");
  EXPECT_EQ(system.available(), 1000 * 1024);
}

TEST(AvailableMemory, is_limited_by_the_tightest_control_group) {
  const System system;
  system.tell("proc/meminfo", machine);
  system.tell("proc/self/cgroup", "0::/job/step\n");
  system.tell("sys/fs/cgroup/job/memory.max", "640000\n");
  system.tell("sys/fs/cgroup/job/memory.current", "200000\n");
  system.tell("sys/fs/cgroup/job/memory.stat", "anon 7\nfile 90\ninactive_file 40000\nactive_file 5000\n");
  system.tell("sys/fs/cgroup/job/step/memory.max", "max\n");
  system.tell("sys/fs/cgroup/job/step/memory.current", "200000\n");
  EXPECT_EQ(system.available(), 640000 - 200000 + 45000 - 10000);
  system.tell("sys/fs/cgroup/job/step/memory.max", "64000\n");
  EXPECT_EQ(system.available(), 0) << "never below";
}

TEST(AvailableMemory, knows_control_groups_of_version_1) {
  const System system;
  system.tell("proc/meminfo", machine);
  system.tell("proc/self/cgroup", "9:name=systemd:/\n4:memory:/outside/container\n1:cpu,cpuacct:/\n");
  system.tell("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.tell("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(system.available(), 1000 * 1024) << "no limit";
  system.tell("sys/fs/cgroup/memory/memory.limit_in_bytes", "128000\n");
  system.tell("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 100\ntotal_active_file 10\n");
  EXPECT_EQ(system.available(), 128000 - 5000 + 110 - 2000);
}

TEST(AvailableMemory, is_unknown_without_a_source) {
  EXPECT_EQ(System().available(), std::nullopt);
  const System odd;
  odd.tell("proc/meminfo", "MemTotal: many\n");
  odd.tell("proc/self/cgroup", "nonsense\n0::\n");
  EXPECT_EQ(odd.available(), std::nullopt);
}

TEST(RequireMemory, refuses_absurd_amounts_and_grants_small_ones) {
  require_memory(4096);
  try {
    require_memory(std::numeric_limits<std::int64_t>::max());
    FAIL() << "an error was expected";
  } catch (const LimitError& error) {
    EXPECT_THAT(error.report().message,
                AllOf(HasSubstr("9223372036854775807 bytes"), HasSubstr("are available to this process")));
  }
}

}  // namespace
}  // namespace evenkeel
