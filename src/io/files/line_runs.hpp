#pragma once

#include <simdjson.h>

#include <cstdint>
#include <limits>

namespace evenkeel {

/// Calls `use` with the value and the count, 0 or more, of each [value, count] of a list. Returns whether the
/// list is made of such.
template <typename Use>
bool for_each_run(const simdjson::dom::element& value, Use use) {
  simdjson::dom::array runs;
  if (value.get(runs)) return false;
  for (const simdjson::dom::element run : runs) {
    simdjson::dom::array pair;
    std::int64_t count = 0;
    if (run.get(pair) || pair.size() != 2 || pair.at(1).get(count) || count < 0) return false;
    use(pair.at(0).value_unsafe(), count);
  }
  return true;
}

/// What counts add up to; the largest number where they are more.
[[nodiscard]] inline std::int64_t add_count(std::int64_t sum, std::int64_t count) noexcept {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return count > most - sum ? most : sum + count;
}

}  // namespace evenkeel
