#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// Which samples wait for others of similar size, and how long. A single long sample keeps one DP rank busy
/// while the others wait for it; several of them in one step keep all ranks busy.
struct DelaySettings {
  std::int64_t steps = 0;                        ///< the most steps that an outlier waits; 0: none waits
  std::optional<std::int64_t> longer_than = {};  ///< tokens: a longer sample is an outlier
  std::optional<std::int64_t> companions = {};   ///< how many share a step: as many as there are DP ranks

  [[nodiscard]] bool is_on() const noexcept { return steps > 0; }
  friend bool operator==(const DelaySettings&, const DelaySettings&) = default;
};

/// What happened to outliers in some steps, and the planned gain for DelaySettings::companions DP ranks, in
/// the units of the cost model.
struct DelayFigures {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;        ///< of all samples of these steps
  std::int64_t samples = 0;       ///< of them, those that waited
  std::int64_t sample_steps = 0;  ///< the steps that they waited, summed
  std::int64_t token_steps = 0;   ///< the same, each step times the sample's tokens
  std::int64_t longest = 0;       ///< steps that a sample waited
  /// The sum of the times at which steps end: with the delay, and without it. Ranks wait for each other at
  /// the end of each mini-batch (`once`), or also at every micro-batch.
  struct Ends {
    double once = 0;
    double every_micro_batch = 0;

    friend bool operator==(const Ends&, const Ends&) = default;
  };
  Ends planned{};
  Ends in_order{};

  /// The delay in steps of an average token.
  [[nodiscard]] double steps_per_token() const noexcept {
    return tokens == 0 ? 0 : static_cast<double>(token_steps) / static_cast<double>(tokens);
  }
  /// The delay of an average sample that waited.
  [[nodiscard]] double steps_per_sample() const noexcept {
    return samples == 0 ? 0 : static_cast<double>(sample_steps) / static_cast<double>(samples);
  }
  void add(const DelayFigures& others) noexcept;

  friend bool operator==(const DelayFigures&, const DelayFigures&) = default;
};

/// How a BatchSchedule delays outliers. Off by default.
struct OutlierDelay {
  DelaySettings settings;
  std::function<std::int64_t(std::int64_t)> length = {};  ///< tokens of a sample, by its position
  PlanSettings plan = {};                                 ///< of the companions' DP ranks: what a step costs
};

}  // namespace evenkeel
