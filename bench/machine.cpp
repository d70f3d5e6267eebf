#include "bench/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace evenkeel::bench {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t value = line.find(": ");
    if (value != std::string::npos) return line.substr(value + 2);
  }
  return "unknown processor";
}

/// Converts "32K" or "8M" to bytes.
std::int64_t bytes_of(const std::string& size) {
  if (size.empty()) return 0;
  std::int64_t value = 0;
  for (const char digit : size) {
    if (digit >= '0' && digit <= '9') value = value * 10 + (digit - '0');
  }
  return size.back() == 'K' ? value << 10 : size.back() == 'M' ? value << 20 : value;
}

std::vector<Cache> caches_of_first_core() {
  std::vector<Cache> caches;
  for (int i = 0;; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(folder + "level");
    if (level.empty()) return caches;
    std::string type = first_line(folder + "type");
    if (type == "Instruction") continue;
    caches.push_back({"L" + level, bytes_of(first_line(folder + "size"))});
  }
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  utsname system{};
  if (uname(&system) == 0) machine.kernel = fmt::format("{} {}", system.sysname, system.release);
  machine.cores = std::thread::hardware_concurrency();
  machine.caches = caches_of_first_core();
  machine.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return machine;
}

int usable_cores() {
#ifdef CPU_COUNT
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
#else
  return static_cast<int>(std::thread::hardware_concurrency());
#endif
}

std::int64_t largest_cache(const Machine& machine) {
  std::int64_t largest = 0;
  for (const Cache& cache : machine.caches) largest = std::max(largest, cache.bytes);
  return largest;
}

std::string description(const Machine& machine) {
  std::string text = fmt::format("{}, {} cores", machine.cpu, machine.cores);
  for (const Cache& cache : machine.caches) text += fmt::format(", {} {} KiB", cache.name, cache.bytes >> 10);
  return text + fmt::format(", {} GiB of memory, {}", machine.memory_bytes >> 30, machine.kernel);
}

nlohmann::json to_json(const Machine& machine) {
  nlohmann::json caches;
  for (const Cache& cache : machine.caches) caches[cache.name] = cache.bytes;
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"caches", caches},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", machine.kernel}};
}

}  // namespace evenkeel::bench
