#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace evenkeel::bench {

/// One cache as the first core sees it.
struct Cache {
  std::string name;  ///< such as "L2"
  std::int64_t bytes = 0;
};

struct Machine {
  std::string cpu;
  std::string kernel;
  unsigned cores = 0;
  std::vector<Cache> caches;
  std::int64_t memory_bytes = 0;
};

/// The machine this runs on; what the system does not tell stays empty or 0. Reads /proc and /sys.
[[nodiscard]] Machine this_machine();

/// Cores that this process may run on, fewer than the machine's where its launcher has bound it, as mpirun
/// does; 0 when unknown.
[[nodiscard]] int usable_cores();

/// The largest cache, or 0 when unknown.
[[nodiscard]] std::int64_t largest_cache(const Machine& machine);

/// One line for people.
[[nodiscard]] std::string description(const Machine& machine);
[[nodiscard]] nlohmann::json to_json(const Machine& machine);

}  // namespace evenkeel::bench
