#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "evenkeel/base/grid.hpp"

namespace evenkeel {

/// `prefix` and `number` with at least `digits` digits, such as step-000012.
[[nodiscard]] inline std::string numbered_name(const char* prefix, std::int64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return prefix + text;
}

/// The folder of a place along dp and cp: DIR/step-000000/dp-000/cp-000, or DIR/step-000000/data-000 where
/// micro-batches have groups of their own.
[[nodiscard]] inline std::filesystem::path dumped_place(const std::filesystem::path& dir, std::int64_t step,
                                                        const GridPoint& place, bool flexible) {
  const std::filesystem::path of_step = dir / numbered_name("step-", step, 6);
  if (flexible) return of_step / numbered_name("data-", place.dp, 3);
  return of_step / numbered_name("dp-", place.dp, 3) / numbered_name("cp-", place.cp, 3);
}

/// The folder of one rank's micro-batches, inside that of its place: tp-000/pp-000.
[[nodiscard]] inline std::filesystem::path dumped_copy(std::int64_t tp, std::int64_t pp) {
  return std::filesystem::path(numbered_name("tp-", tp, 3)) / numbered_name("pp-", pp, 3);
}

[[nodiscard]] inline std::string dumped_name(std::int64_t micro_batch) {
  return numbered_name("mb-", micro_batch, 5) + ".safetensors";
}

}  // namespace evenkeel
