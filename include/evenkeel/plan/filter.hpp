#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace evenkeel {

/// What happens to a sample that is longer than `FilterSettings::max_length`.
enum class TooLong : std::uint8_t {
  error,     ///< the job ends; without a max_length of its own, at the step whose cap it exceeds
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

/// What happens to a sample in which no token carries loss: a short response that was cut off, or a mask of
/// 0.
enum class WithoutLoss : std::uint8_t {
  keep,   ///< it is kept, and trains nothing
  drop,   ///< it is left out of its step, which has fewer samples
  error,  ///< the step that has it is an error
};

/// What happens to samples that arrive (source.kind: stream) and are older than stream.max_staleness.
enum class OnStale : std::uint8_t {
  wait,  ///< producers get tickets only for groups that can still be trained in time; stale samples are
         ///< dropped
  drop,  ///< tickets are not limited; stale samples are dropped
  mask,  ///< tickets are not limited; stale samples are trained with a loss mask of 0
};

/// What became of samples that arrived. At any time, received = trained + formed + waiting + dropped.
struct ArrivalFigures {
  // Since the buffer began.
  std::int64_t received = 0;    ///< samples, without duplicates; so below
  std::int64_t duplicates = 0;  ///< that came again
  std::int64_t trained = 0;
  std::int64_t formed = 0;                        ///< in steps that are not trained
  std::int64_t waiting = 0;                       ///< for a step
  std::map<std::string, std::int64_t> dropped{};  ///< by reason
  std::int64_t received_tokens = 0;               ///< response tokens of `received`
  std::int64_t trained_tokens = 0;                ///< the same of `trained`
  // Of the steps that this run has read.
  std::map<std::int64_t, std::int64_t> staleness{};  ///< samples by the versions that they were behind
  double waited = 0;                                 ///< seconds until enough samples were there

  friend bool operator==(const ArrivalFigures&, const ArrivalFigures&) = default;
};

/// Which samples are taken, and which parts of them. Depends on lengths only, unless it says otherwise.
struct FilterSettings {
  TooLong too_long = TooLong::error;
  EmptySample empty = EmptySample::keep;
  /// Depends on loss masks, too: applied to what each rank brings to a step.
  WithoutLoss without_loss = WithoutLoss::keep;
  /// In tokens of a sample before it is aligned; unset: the smallest cap of the passes over a step, or
  /// prefix.max_path_tokens if that is less.
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
