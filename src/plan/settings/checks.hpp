#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/base/ids.hpp"

namespace evenkeel::plan_checks {

/// Throws ConfigError that names `key` when the value is below `least`.
void require_at_least(std::int64_t least, std::int64_t value, std::string_view key);

/// Throws ConfigError that names `key` when the value is above `most`.
void require_at_most(std::int64_t most, std::int64_t value, std::string_view key);

/// Throws ConfigError that names `key` unless the value is a possible size or count: what is summed up or
/// rounded up from these fits 64 bits, and cumulative lengths 32.
void require_size(std::int64_t value, std::string_view key);

/// The sum of lengths. Throws InputError when one is negative or the sum reaches 2^62.
std::int64_t total_of(std::span<const std::int64_t> lengths);

/// A sample that no micro-batch can hold.
struct AboveCap {
  std::int64_t length = 0;
  std::int64_t aligned = 0;
  std::int64_t alignment = 1;
  std::int64_t cap = 0;
};

/// Throws LimitError that names the sample, its lengths and the cap.
[[noreturn]] void throw_above_cap(SampleId sample, const AboveCap& lengths);

/// Calls throw_above_cap for the first length that passes the cap once it is rounded up to a multiple of
/// `alignment`. Lengths below 0 pass: total_of() is what refuses them.
void require_lengths_fit(std::span<const std::int64_t> lengths, std::int64_t alignment, std::int64_t cap);

}  // namespace evenkeel::plan_checks

namespace evenkeel {

/// Most samples of a group that arrives, and most steps to look ahead when one is formed.
inline constexpr std::int64_t most_in_group = 4096;
inline constexpr std::int64_t most_ahead = 64;

}  // namespace evenkeel
