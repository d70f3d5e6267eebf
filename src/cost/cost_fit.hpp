#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// How long one micro-batch took, as a trainer reports it.
struct CostObservation {
  std::int64_t tokens = 0;  ///< of all its samples
  double squares = 0;       ///< the sum of the samples' squared lengths
  double seconds = 0;
  std::int64_t ranks = 1;  ///< of its group, where it has one of its own size; else 1
};

/// seconds ~ overhead + linear * tokens + quadratic * squares, none of them negative; on a group of g ranks
///
///     overhead + [linear tokens + quadratic squares + max(0, c(g) (g-1) tokens - v quadratic squares)] / g
///
/// as CommunicationCost has it, with what FitGroups says.
struct TimeModel {
  double overhead = 0;   ///< seconds a micro-batch
  double linear = 0;     ///< seconds a token
  double quadratic = 0;  ///< seconds a squared length
  /// c of groups inside a node: seconds to pass one token's keys and values on by one rank. Unset: not told
  /// by any observations.
  std::optional<double> inside_node = std::nullopt;
  std::optional<double> between_nodes = std::nullopt;  ///< c of larger groups

  /// On one rank.
  [[nodiscard]] double operator()(const CostObservation& observation) const noexcept {
    return overhead + linear * static_cast<double>(observation.tokens) + quadratic * observation.squares;
  }
  friend bool operator==(const TimeModel&, const TimeModel&) = default;
};

/// What one token's keys and values take to the next rank, before anything is measured of it:
/// seconds + tokens * linear + squares * quadratic of the times that are fitted.
struct PresentHop {
  double seconds = 0;
  double tokens = 0;
  double squares = 0;

  [[nodiscard]] double operator()(double linear, double quadratic) const noexcept {
    return seconds + tokens * linear + squares * quadratic;
  }
};

/// What a fit to groups of several ranks is given beside times.
struct FitGroups {
  std::int64_t ranks_per_node = 1;  ///< c(g) is inside_node up to that
  double overlap = 1;               ///< v, the share of attention that hides communication: 0 to 1
  PresentHop inside_node{};         ///< what is known of them so far
  PresentHop between_nodes{};
};

/// Least squares with no negative coefficient, made robust by Huber's weights (1964): an observation that is
/// far off, for the median of all, counts by its distance and not by its square. Nothing, so that the caller
/// keeps the model it has, when fewer than 16 observations are sound (finite, above 0 seconds), when they
/// cannot separate tokens from squares (all of one shape, or all samples of one length), or when nothing
/// explains the times, or only with coefficients that no ordinary double holds. Where they only cannot tell
/// the overhead (micro-batches filled to within 1 % of each other), it is 0, and its time is the tokens' and
/// squares'. Deterministic; the order of observations may change the last digits. O(n log n).
///
/// Observations of groups tell c too, by alternating between coefficients and which observations have
/// communication that attention does not hide, a bounded number of times. They cannot tell a c, which then is
/// unset in the model and stays as `groups` has it, while
/// - fewer than 4 are of groups that it holds for, which are then left out of the fit;
/// - none shows in the times beyond noise;
/// - they have nothing to tell it by, such as groups of one size only, which communicate all the time.
/// Where all communication is hidden they bound c from above: it is set if that is below the present one, and
/// never larger than that. v is given and not fitted: where communication is hidden times say nothing of it,
/// and where it is not, a larger v looks like a smaller c or a smaller quadratic coefficient.
[[nodiscard]] std::optional<TimeModel> fit_time_model(std::span<const CostObservation> observations,
                                                      const FitGroups& groups = {});

/// What one token costs where squares cost nothing: any number of whole units makes the same proportions, and
/// what is counted in them beside is rounded to one.
enum class TokenUnits : std::int16_t {
  one = 1,
  fine = 24576,  ///< for communication, which is less than a token's work
};

/// The same proportions in integers, which is what partitions balance: linear is rounded to a sixteenth of
/// the quadratic coefficient, or to a whole one from 1024 times that on. Precondition: linear or quadratic is
/// above 0.
///
/// Example: 3e-6 s a token and 1e-9 s a squared length make {3000, 1}.
[[nodiscard]] CostModel cost_model_of(const TimeModel& times, TokenUnits units = TokenUnits::one);

/// Seconds in the units of cost_model_of(times, units); 10^14 at most.
[[nodiscard]] Cost cost_of_seconds(double seconds, const TimeModel& times,
                                   TokenUnits units = TokenUnits::one);
/// The overhead of a micro-batch in these.
[[nodiscard]] Cost overhead_cost_of(const TimeModel& times, TokenUnits units = TokenUnits::one);

}  // namespace evenkeel
