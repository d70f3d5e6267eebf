#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace evenkeel::bench {

/// One cache as seen by the first core.
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

/// The machine on which this program runs; unknown properties are empty or 0. Reads /proc and /sys.
[[nodiscard]] Machine this_machine();

/// Number of cores on which this process may run, fewer than the machine has if the launcher has bound it, as
/// mpirun does; 0 if unknown.
[[nodiscard]] int usable_cores();

/// Returns the size of the largest cache, or 0 if unknown.
[[nodiscard]] std::int64_t largest_cache(const Machine& machine);

/// Returns a line for people.
[[nodiscard]] std::string description(const Machine& machine);
[[nodiscard]] nlohmann::json to_json(const Machine& machine);

}  // namespace evenkeel::bench
