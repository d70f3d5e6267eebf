#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/balance/cost_model.hpp"

namespace evenkeel {

/// How long one micro-batch took, as a trainer reports it.
struct CostObservation {
  std::int64_t tokens = 0;  ///< of all its samples
  double squares = 0;       ///< the sum of the samples' squared lengths
  double seconds = 0;
  std::int64_t dp_rank = 0;  ///< who measured it
};

/// seconds ~ overhead + linear * tokens + quadratic * squares, none of them negative.
struct TimeModel {
  double overhead = 0;   ///< seconds a micro-batch
  double linear = 0;     ///< seconds a token
  double quadratic = 0;  ///< seconds a squared length

  [[nodiscard]] double operator()(const CostObservation& observation) const noexcept {
    return overhead + linear * static_cast<double>(observation.tokens) + quadratic * observation.squares;
  }
  friend bool operator==(const TimeModel&, const TimeModel&) = default;
};

/// Least squares with no negative coefficient, made robust by Huber's weights (1964): an observation that is
/// far off, for the median of all, counts by its distance and not by its square. Nothing, so that the caller
/// keeps the model it has, when fewer than 16 observations are sound (finite, above 0 seconds), when they
/// cannot tell tokens from squares (all of one shape, or all samples of one length), or when nothing explains
/// the times, or only with coefficients that no ordinary double holds. Where they only cannot tell the
/// overhead (micro-batches filled to within 1 % of each other), it is 0, and its time is the tokens' and
/// squares'. Deterministic; the order of observations may change the last digits. O(n log n).
[[nodiscard]] std::optional<TimeModel> fit_time_model(std::span<const CostObservation> observations);

/// The same proportions in integers, which is what partitions balance: linear is rounded to a sixteenth of
/// the quadratic coefficient, or to a whole one from 1024 times that on. Precondition: linear or quadratic is
/// above 0.
///
/// Example: 3e-6 s a token and 1e-9 s a squared length make {3000, 1}.
[[nodiscard]] CostModel cost_model_of(const TimeModel& times);

/// The overhead of a micro-batch in the units of cost_model_of(times).
[[nodiscard]] Cost overhead_cost_of(const TimeModel& times);

/// How fast each DP rank works, in thousandths of the median rank: the median of what `times` expects of its
/// observations over what they took. 1000 for ranks with fewer than 4 sound observations and for those within
/// 2 % of the median rank, so that noise does not change plans; between 100 and 10000. Observations of other
/// ranks are left out. Deterministic, O(n log n).
[[nodiscard]] std::vector<std::int64_t> estimate_speeds(std::span<const CostObservation> observations,
                                                        const TimeModel& times, std::int64_t dp);

}  // namespace evenkeel
