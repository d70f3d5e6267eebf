#include "base/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Memory of the machine or of a control group, in bytes.
struct MemoryLimits {
  std::int64_t total = 0;
  std::int64_t available = 0;

  [[nodiscard]] std::int64_t usable_bytes() const noexcept {
    return std::max<std::int64_t>(available - total / 64, 0);
  }
};

/// Reads a file that contains a single number. Returns nullopt if the file is missing or contains a word such
/// as "max".
std::optional<std::int64_t> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// Reads a file with a name and a number per line. Returns the sum of the numbers with any of these names, or
/// nullopt if the file does not contain any of them.
template <typename... Names>
std::optional<std::int64_t> sum_named_numbers(const std::filesystem::path& path, Names... names) {
  std::ifstream file(path);
  std::optional<std::int64_t> sum;
  std::string name;
  std::int64_t number = 0;
  while (file >> name >> number) {
    if (((name == names) || ...)) sum = sum.value_or(0) + number;
    // Skip the rest of the line, which may contain a unit.
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return sum;
}

std::optional<MemoryLimits> machine_memory(const std::filesystem::path& root) {
  constexpr std::int64_t kibibyte = 1024;
  const std::filesystem::path path = root / "proc/meminfo";
  const auto available = sum_named_numbers(path, "MemAvailable:", "SwapFree:");
  const auto total = sum_named_numbers(path, "MemTotal:", "SwapTotal:");
  if (!available || !total) return std::nullopt;
  return MemoryLimits{*total * kibibyte, *available * kibibyte};
}

/// Names of the files and entries in one version of Linux control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache;
  const char* other_cache;
};
constexpr GroupFiles version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                               "total_active_file"};
constexpr GroupFiles version_2{"memory.max", "memory.current", "inactive_file", "active_file"};

std::optional<MemoryLimits> cgroup_memory(const std::filesystem::path& folder, const GroupFiles& files) {
  constexpr std::int64_t no_limit = std::int64_t{1}
                                    << 60;  // version 1 reports a huge number if there is no limit
  const auto limit = read_number(folder / files.limit);
  const auto used = read_number(folder / files.used);
  if (!limit || !used || *limit >= no_limit) return std::nullopt;
  const auto cache = sum_named_numbers(folder / "memory.stat", files.cache, files.other_cache);
  return MemoryLimits{*limit, *limit - *used + cache.value_or(0)};
}

/// Lowers `least` to the smallest amount of memory, in bytes, that any control group from `path` up to the
/// root of the hierarchy has left. In a container, `path` may be a path of the host, so folders may be
/// missing.
void lower_to_cgroup_limits(const std::filesystem::path& hierarchy, std::filesystem::path path,
                            const GroupFiles& files, std::optional<std::int64_t>& least) {
  for (;; path = path.parent_path()) {
    if (const auto room = cgroup_memory(hierarchy / path.relative_path(), files))
      least = std::min(least.value_or(room->usable_bytes()), room->usable_bytes());
    if (!path.has_relative_path()) return;
  }
}

}  // namespace

std::optional<std::int64_t> available_memory(const std::filesystem::path& root) {
  std::optional<std::int64_t> least;
  if (const auto machine = machine_memory(root)) least = machine->usable_bytes();
  std::ifstream groups(root / "proc/self/cgroup");  // each line is NUMBER:CONTROLLERS:PATH
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::filesystem::path path = line.substr(second + 1);
    if (controllers.empty()) lower_to_cgroup_limits(root / "sys/fs/cgroup", path, version_2, least);
    if (controllers == "memory")
      lower_to_cgroup_limits(root / "sys/fs/cgroup/memory", path, version_1, least);
  }
  return least;
}

void require_memory(std::size_t bytes) {
  const std::optional<std::int64_t> available = available_memory();
  if (!available || bytes <= static_cast<std::size_t>(*available)) return;
  throw LimitError("memory",
                   std::to_string(bytes) + " bytes must be allocated at once, but only " +
                       std::to_string(*available) + " are available to this process",
                   "Use a smaller global batch, shorter samples or more nodes");
}

}  // namespace evenkeel
