#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// Which samples wait for others of like size, and how long. A lone long sample keeps one DP rank busy while
/// the others wait for it; several of them in one step keep all ranks busy.
struct DelaySettings {
  std::int64_t steps = 0;                        ///< the most that an outlier waits; 0: none does
  std::optional<std::int64_t> longer_than = {};  ///< tokens: a sample of more is an outlier
  std::optional<std::int64_t> companions = {};   ///< how many come together: as many as there are DP ranks

  [[nodiscard]] bool is_on() const noexcept { return steps > 0; }
  friend bool operator==(const DelaySettings&, const DelaySettings&) = default;
};

/// What became of outliers in some steps, and what it gained as planned for DelaySettings::companions DP
/// ranks, in the units of the cost model.
struct DelayFigures {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;        ///< of all samples of these steps
  std::int64_t samples = 0;       ///< of them, those that waited
  std::int64_t sample_steps = 0;  ///< the steps that they waited, summed
  std::int64_t token_steps = 0;   ///< the same, each step times the sample's tokens
  std::int64_t longest = 0;       ///< steps that a sample waited
  /// When steps end, summed: as they are, and as they would be without the delay. Ranks wait for each other
  /// at the end of each mini-batch (`once`), or at every micro-batch, too.
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

/// What a BatchSchedule delays outliers by. Off unless the settings say otherwise.
struct OutlierDelay {
  DelaySettings settings;
  std::function<std::int64_t(std::int64_t)> length = {};  ///< tokens of a sample, by its position
  PlanSettings plan = {};                                 ///< of the companions' DP ranks: what a step costs
};

}  // namespace evenkeel
