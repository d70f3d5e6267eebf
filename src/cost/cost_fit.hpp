#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// The time of one micro-batch, as reported by a trainer.
struct CostObservation {
  std::int64_t tokens = 0;  ///< sum over its samples
  double squares = 0;       ///< sum of the samples' squared lengths
  double seconds = 0;
  std::int64_t ranks = 1;  ///< size of the micro-batch's group if groups have different sizes; otherwise 1
};

/// Time of a micro-batch on one rank: seconds ~ overhead + linear * tokens + quadratic * squares, without
/// negative coefficients. On a group of g ranks:
///
///     overhead + [linear tokens + quadratic squares + max(0, c(g) (g-1) tokens - v quadratic squares)] / g
///
/// as in CommunicationCost. v and the size of nodes are in FitGroups.
struct TimeModel {
  double overhead = 0;   ///< seconds per micro-batch
  double linear = 0;     ///< seconds per token
  double quadratic = 0;  ///< seconds per squared length
  /// c(g) for groups inside a node: the seconds to pass one token's keys and values to the next rank. Unset
  /// if the observations do not determine it.
  std::optional<double> inside_node = std::nullopt;
  std::optional<double> between_nodes = std::nullopt;  ///< c(g) for larger groups

  /// Returns the seconds on one rank.
  [[nodiscard]] double operator()(const CostObservation& observation) const noexcept {
    return overhead + linear * static_cast<double>(observation.tokens) + quadratic * observation.squares;
  }
  friend bool operator==(const TimeModel&, const TimeModel&) = default;
};

/// The assumed number of seconds to pass one token's keys and values to the next rank, used until a fit
/// determines it: seconds + tokens * linear + squares * quadratic, with the fitted coefficients.
struct AssumedHop {
  double seconds = 0;
  double tokens = 0;
  double squares = 0;

  [[nodiscard]] double operator()(double linear, double quadratic) const noexcept {
    return seconds + tokens * linear + squares * quadratic;
  }
};

/// Parameters of a fit to groups of several ranks.
struct FitGroups {
  std::int64_t ranks_per_node = 1;  ///< size of the largest group to which inside_node applies
  double overlap = 1;        ///< v, the fraction of attention time that can hide communication, from 0 to 1
  AssumedHop inside_node{};  ///< current estimates
  AssumedHop between_nodes{};
};

/// Fits a time model by least squares without negative coefficients, made robust by Huber's weights (1964):
/// if the residual of an observation is large compared with the median of all residuals, its distance counts
/// instead of its square. Deterministic; the order of observations may change the last digits. O(n log n).
///
/// Returns nullopt, so that the caller keeps its current model, if
/// - fewer than 16 observations are sound (finite, above 0 seconds);
/// - the observations cannot distinguish the cost of tokens from that of squares (all have the same shape, or
///   all samples have the same length);
/// - no coefficients explain the times, or the coefficients that do are not normal doubles. If only the
///   overhead cannot be distinguished (micro-batches are filled to within 1 % of each other), the overhead is
///   0, and its time is attributed to tokens and squares.
///
/// Observations of groups also determine c: the fit alternates, a bounded number of times, between fitting
/// the coefficients and classifying the observations by whether attention hides their communication. A c is
/// unset in the model, and keeps its value in `groups`, if
/// - fewer than 4 observations are of groups to which it applies; these are then left out of the fit;
/// - the effect of its communication on the times does not exceed the noise;
/// - its term cannot be distinguished from others, for example if all groups have the same size.
/// If all communication of a link is hidden, the observations give an upper bound on c: c is set to the bound
/// if that is below the current value. v is given and not fitted: if communication is hidden, the times do
/// not depend on v; otherwise, a larger v cannot be distinguished from a smaller c or a smaller quadratic
/// coefficient.
[[nodiscard]] std::optional<TimeModel> fit_time_model(std::span<const CostObservation> observations,
                                                      const FitGroups& groups = {});

/// Cost of one token if squares have no cost. The proportions are the same for any number of units, but other
/// costs, such as communication, are rounded to whole units.
enum class TokenUnits : std::int16_t {
  one = 1,
  fine = 24576,  ///< used with communication, which costs less than a token's work
};

/// Returns a cost model with the same proportions but integer coefficients, which partitions need. The linear
/// coefficient becomes a multiple of 1/16 of the quadratic one or, for ratios of at least 1024, a multiple of
/// the quadratic one. For ratios of at least 2^30, the quadratic coefficient is 0 and the linear one is
/// `units`. Precondition: linear or quadratic is above 0.
///
/// Example: 3e-6 s per token and 1e-9 s per squared length give {3000, 1}.
[[nodiscard]] CostModel cost_model_of(const TimeModel& times, TokenUnits units = TokenUnits::one);

/// Converts seconds to the units of cost_model_of(times, units). The result is at most 10^14.
[[nodiscard]] Cost cost_of_seconds(double seconds, const TimeModel& times,
                                   TokenUnits units = TokenUnits::one);
/// Returns the overhead of a micro-batch in the units of cost_model_of(times, units).
[[nodiscard]] Cost overhead_cost_of(const TimeModel& times, TokenUnits units = TokenUnits::one);

}  // namespace evenkeel
