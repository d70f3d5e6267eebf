#pragma once

#include <cstdint>
#include <optional>

namespace evenkeel {

/// What happens to a sample that is longer than `FilterSettings::max_length`.
enum class TooLong : std::uint8_t {
  error,     ///< it is kept; a step whose cap it exceeds is an error
  drop,      ///< it is left out
  truncate,  ///< its first max_length tokens are kept
  split,     ///< it becomes pieces of max_length tokens, the last one shorter, each a sample of its own
};

/// What happens to a sample without any token.
enum class EmptySample : std::uint8_t {
  keep,   ///< it is kept, and has no weight in a mean over tokens
  error,  ///< the job ends before its first step
  drop,   ///< it is left out
};

/// What happens to samples that arrive (source.kind: stream) and are older than stream.max_staleness.
enum class OnStale : std::uint8_t {
  wait,  ///< producers get tickets only for groups that can still be trained in time; stale samples are
         ///< dropped
  drop,  ///< tickets are not limited; stale samples are dropped
  mask,  ///< tickets are not limited; stale samples are trained with a loss mask of 0
};

/// Which samples of a source are taken, and which parts of them. Depends on lengths only.
struct FilterSettings {
  TooLong too_long = TooLong::error;
  EmptySample empty = EmptySample::keep;
  /// In tokens of a sample before it is aligned; unset: the smallest cap of the passes over a step.
  std::optional<std::int64_t> max_length{};

  friend bool operator==(const FilterSettings&, const FilterSettings&) = default;
};

/// What a filter did to a source.
struct FilterCounts {
  std::int64_t samples = 0;           ///< of the source
  std::int64_t taken = 0;             ///< samples used in one epoch, counting each piece as one
  std::int64_t dropped_too_long = 0;  ///< samples
  std::int64_t dropped_empty = 0;     ///< samples
  std::int64_t truncated = 0;         ///< samples
  std::int64_t split = 0;             ///< samples that came in pieces
  std::int64_t pieces = 0;            ///< that they came in
  std::int64_t tokens_left_out = 0;   ///< of dropped and truncated samples

  friend bool operator==(const FilterCounts&, const FilterCounts&) = default;
};

}  // namespace evenkeel
