#include "base/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Somebody's memory: what there is, and what of it can still be had.
struct Room {
  std::int64_t total = 0;
  std::int64_t available = 0;

  [[nodiscard]] std::int64_t to_take() const noexcept {
    return std::max<std::int64_t>(available - total / 64, 0);
  }
};

/// The number in a file of one number; nothing for a missing file or another word, such as "max".
std::optional<std::int64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// The sum of the numbers behind these names in a file of names and numbers; nothing where none is there.
template <typename... Names>
std::optional<std::int64_t> numbers_in(const std::filesystem::path& path, Names... names) {
  std::ifstream file(path);
  std::optional<std::int64_t> sum;
  std::string name;
  std::int64_t number = 0;
  while (file >> name >> number) {
    if (((name == names) || ...)) sum = sum.value_or(0) + number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');  // a unit
  }
  return sum;
}

std::optional<Room> room_of_machine(const std::filesystem::path& root) {
  constexpr std::int64_t kibibyte = 1024;
  const std::filesystem::path path = root / "proc/meminfo";
  const auto available = numbers_in(path, "MemAvailable:", "SwapFree:");
  const auto total = numbers_in(path, "MemTotal:", "SwapTotal:");
  if (!available || !total) return std::nullopt;
  return Room{*total * kibibyte, *available * kibibyte};
}

/// The names that a version of control groups has for the same things.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache;
  const char* other_cache;
};
constexpr GroupFiles version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                               "total_active_file"};
constexpr GroupFiles version_2{"memory.max", "memory.current", "inactive_file", "active_file"};

std::optional<Room> room_of_group(const std::filesystem::path& folder, const GroupFiles& files) {
  constexpr std::int64_t no_limit = std::int64_t{1} << 60;  // version 1 writes a number there too
  const auto limit = number_in(folder / files.limit);
  const auto used = number_in(folder / files.used);
  if (!limit || !used || *limit >= no_limit) return std::nullopt;
  const auto cache = numbers_in(folder / "memory.stat", files.cache, files.other_cache);
  return Room{*limit, *limit - *used + cache.value_or(0)};
}

/// The least that any group from `path` up to the root of the hierarchy leaves. A container may see its own
/// group as the root and yet be told its path outside, so that folders may be missing.
void take_groups(const std::filesystem::path& hierarchy, std::filesystem::path path, const GroupFiles& files,
                 std::optional<std::int64_t>& least) {
  for (;; path = path.parent_path()) {
    if (const auto room = room_of_group(hierarchy / path.relative_path(), files))
      least = std::min(least.value_or(room->to_take()), room->to_take());
    if (!path.has_relative_path()) return;
  }
}

}  // namespace

std::optional<std::int64_t> available_memory(const std::filesystem::path& root) {
  std::optional<std::int64_t> least;
  if (const auto machine = room_of_machine(root)) least = machine->to_take();
  std::ifstream groups(root / "proc/self/cgroup");  // lines of NUMBER:CONTROLLERS:PATH
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::filesystem::path path = line.substr(second + 1);
    if (controllers.empty()) take_groups(root / "sys/fs/cgroup", path, version_2, least);
    if (controllers == "memory") take_groups(root / "sys/fs/cgroup/memory", path, version_1, least);
  }
  return least;
}

void require_memory(std::size_t bytes) {
  const std::optional<std::int64_t> available = available_memory();
  if (!available || bytes <= static_cast<std::size_t>(*available)) return;
  throw LimitError("memory",
                   std::to_string(bytes) + " bytes are needed at once, and " + std::to_string(*available) +
                       " are left on this node",
                   "Use a smaller global batch, shorter samples or more nodes");
}

}  // namespace evenkeel
