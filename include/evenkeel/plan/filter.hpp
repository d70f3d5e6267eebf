#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace evenkeel {

/// What to do with a sample that is longer than `FilterSettings::max_length`.
enum class TooLong : std::uint8_t {
  error,     ///< the job ends; without its own max_length, at the step whose cap the sample exceeds
  drop,      ///< it is dropped
  truncate,  ///< its first max_length tokens are kept
  split,     ///< it becomes pieces of max_length tokens, the last one shorter, each a separate sample
};

/// What to do with a sample without tokens.
enum class EmptySample : std::uint8_t {
  keep,   ///< it is kept, with weight 0 in a mean over tokens
  error,  ///< the job ends before its first step
  drop,   ///< it is dropped
};

/// What to do with a sample in which no token carries loss, because a short response was truncated or its
/// mask is 0.
enum class WithoutLoss : std::uint8_t {
  keep,   ///< it is kept, and trains nothing
  drop,   ///< it is dropped from its step, which then has fewer samples
  error,  ///< the step that contains it fails with an error
};

/// What to do with samples that arrive (source.kind: stream) and are older than stream.max_staleness.
enum class OnStale : std::uint8_t {
  wait,  ///< producers get tickets only for groups that can still be trained in time; stale samples are
         ///< dropped
  drop,  ///< tickets are not limited; stale samples are dropped
  mask,  ///< tickets are not limited; stale samples are trained with a loss mask of 0
};

/// Numbers of samples that arrived, by their state. At any time, received = trained + formed + waiting +
/// dropped.
struct ArrivalFigures {
  // Since the buffer began:
  std::int64_t received = 0;    ///< number of samples, without duplicates, here and below
  std::int64_t duplicates = 0;  ///< number of samples that arrived again
  std::int64_t trained = 0;
  std::int64_t formed = 0;                        ///< number of samples in steps that are not trained
  std::int64_t waiting = 0;                       ///< number of samples that wait for a step
  std::map<std::string, std::int64_t> dropped{};  ///< by reason
  std::int64_t received_tokens = 0;               ///< response tokens of `received`
  std::int64_t trained_tokens = 0;                ///< response tokens of `trained`
  // For the steps that this run has read:
  std::map<std::int64_t, std::int64_t> staleness{};  ///< number of samples by number of versions behind
  double waited_seconds = 0;                         ///< seconds until enough samples were available

  friend bool operator==(const ArrivalFigures&, const ArrivalFigures&) = default;
};

/// Determines which samples are used, and which parts of them. Depends only on lengths unless stated
/// otherwise.
struct FilterSettings {
  TooLong too_long = TooLong::error;
  EmptySample empty = EmptySample::keep;
  /// Also depends on loss masks; applied to the samples that each rank adds to a step.
  WithoutLoss without_loss = WithoutLoss::keep;
  /// Maximum number of tokens of a sample before it is aligned. If unset, the smallest cap of the passes over
  /// a step, or prefix.max_path_tokens if that is smaller.
  std::optional<std::int64_t> max_length{};

  friend bool operator==(const FilterSettings&, const FilterSettings&) = default;
};

/// The effect of a filter on a source.
struct FilterCounts {
  std::int64_t samples = 0;           ///< number of samples of the source
  std::int64_t taken = 0;             ///< number of samples used in one epoch, counting each piece as one
  std::int64_t dropped_too_long = 0;  ///< number of samples dropped since they were too long
  std::int64_t dropped_empty = 0;     ///< number of samples dropped since they were empty
  std::int64_t truncated = 0;         ///< number of samples of which only the first tokens are used
  std::int64_t split = 0;             ///< number of samples that were split into pieces
  std::int64_t pieces = 0;            ///< number of these pieces
  std::int64_t tokens_left_out = 0;   ///< number of tokens of dropped and truncated samples that are not used

  friend bool operator==(const FilterCounts&, const FilterCounts&) = default;
};

}  // namespace evenkeel
