#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// Settings of the delay of outliers: which samples wait for others of similar size, and for how long. A
/// single long sample keeps one DP rank busy while the others wait for it; several of them in one step keep
/// all ranks busy.
struct DelaySettings {
  std::int64_t steps = 0;  ///< maximum number of steps that an outlier waits; 0 if none waits
  std::optional<std::int64_t> longer_than = {};  ///< a sample with more tokens is an outlier
  /// Number of outliers that share a step: the number of DP ranks.
  std::optional<std::int64_t> outliers_per_step = {};

  [[nodiscard]] bool is_on() const noexcept { return steps > 0; }
  friend bool operator==(const DelaySettings&, const DelaySettings&) = default;
};

/// The delays of outliers in some steps, and the planned gain for DelaySettings::outliers_per_step DP ranks,
/// in the units of the cost model.
struct DelayFigures {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;        ///< number of tokens of all samples of these steps
  std::int64_t samples = 0;       ///< number of samples that waited
  std::int64_t sample_steps = 0;  ///< total number of steps that they waited
  std::int64_t token_steps = 0;   ///< the same, with each step multiplied by the sample's tokens
  std::int64_t longest = 0;       ///< maximum number of steps that a sample waited
  /// The sum of the times at which steps end, with the delay and without it. Ranks wait for each other at the
  /// end of each mini-batch (`once`), or also at every micro-batch.
  struct Ends {
    double once = 0;
    double every_micro_batch = 0;

    friend bool operator==(const Ends&, const Ends&) = default;
  };
  Ends planned{};
  Ends in_order{};

  /// Returns the delay of an average token, in steps.
  [[nodiscard]] double steps_per_token() const noexcept {
    return tokens == 0 ? 0 : static_cast<double>(token_steps) / static_cast<double>(tokens);
  }
  /// Returns the delay of an average sample that waited, in steps.
  [[nodiscard]] double steps_per_sample() const noexcept {
    return samples == 0 ? 0 : static_cast<double>(sample_steps) / static_cast<double>(samples);
  }
  void add(const DelayFigures& others) noexcept;

  friend bool operator==(const DelayFigures&, const DelayFigures&) = default;
};

/// How a BatchSchedule delays outliers. Off by default.
struct OutlierDelay {
  DelaySettings settings;
  /// Returns the number of tokens of a sample, given its position.
  std::function<std::int64_t(std::int64_t)> length = {};
  PlanSettings plan = {};  ///< settings that determine a step's cost; plan.dp is outliers_per_step
};

}  // namespace evenkeel
