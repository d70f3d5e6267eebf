#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/base/ids.hpp"

namespace evenkeel::plan_checks {

/// Throws ConfigError naming `key` if the value is below `least`.
void require_at_least(std::int64_t least, std::int64_t value, std::string_view key);

/// Throws ConfigError naming `key` if the value is above `most`.
void require_at_most(std::int64_t most, std::int64_t value, std::string_view key);

/// Throws ConfigError naming `key` unless the value, a size or a count, is from 1 to 2^31-1. Sums of
/// such values, and values rounded up to an alignment, fit in 64 bits. The cumulative lengths of a
/// micro-batch fit in 32 bits, since its cap is such a value.
void require_valid_size(std::int64_t value, std::string_view key);

/// Returns the sum of lengths. Throws InputError if a length is negative or the sum reaches 2^62.
std::int64_t total_of(std::span<const std::int64_t> lengths);

/// The lengths, before and after alignment, of a sample that exceeds the cap of a micro-batch.
struct AboveCap {
  std::int64_t length = 0;
  std::int64_t aligned = 0;
  std::int64_t alignment = 1;
  std::int64_t cap = 0;
};

/// Throws LimitError naming the sample, its lengths and the cap.
[[noreturn]] void throw_above_cap(SampleId sample, const AboveCap& lengths, std::string_view cap_name);

/// Calls throw_above_cap() for the first length that, rounded up to a multiple of `alignment`, exceeds the
/// cap. The sample's id is the position in `lengths`. Ignores negative lengths, which total_of() rejects.
void require_lengths_fit(std::span<const std::int64_t> lengths, std::int64_t alignment, std::int64_t cap);

}  // namespace evenkeel::plan_checks

namespace evenkeel {

/// Maximum number of samples in a group of a stream source.
inline constexpr std::int64_t max_in_group = 4096;
/// Maximum number of steps to look ahead when a step is formed from arriving samples.
inline constexpr std::int64_t max_ahead = 64;

}  // namespace evenkeel
