#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// The time of one micro-batch, as reported by a trainer.
struct CostObservation {
  std::int64_t tokens = 0;  ///< total number of tokens of its samples
  double squares = 0;       ///< sum of the samples' squared lengths
  double seconds = 0;
  std::int64_t ranks = 1;  ///< number of ranks that run the micro-batch if groups differ in size; otherwise 1
};

/// Model of the time of a micro-batch, without negative coefficients. On one rank, the seconds are
///
///     overhead + linear tokens + quadratic squares
///
/// On a group of g ranks, as in CommunicationCost, the seconds are
///
///     overhead + [linear tokens + quadratic squares + max(0, c(g) (g-1) tokens - v quadratic squares)] / g
///
/// FitGroups contains v and the number of ranks per node.
struct TimeModel {
  double overhead = 0;   ///< seconds per micro-batch
  double linear = 0;     ///< seconds per token
  double quadratic = 0;  ///< seconds per squared length
  /// c(g) for groups inside a node: the seconds to pass one token's keys and values to the next rank; nullopt
  /// if the observations do not determine it.
  std::optional<double> inside_node = std::nullopt;
  /// c(g) for groups of more ranks than FitGroups::ranks_per_node: the seconds to pass one token's keys and
  /// values to the next rank; nullopt if the observations do not determine it.
  std::optional<double> between_nodes = std::nullopt;

  /// Returns the predicted seconds on a single rank. Ignores `observation.ranks`.
  [[nodiscard]] double operator()(const CostObservation& observation) const noexcept {
    return overhead + linear * static_cast<double>(observation.tokens) + quadratic * observation.squares;
  }
  friend bool operator==(const TimeModel&, const TimeModel&) = default;
};

/// Assumed seconds to pass one token's keys and values to the next rank, used until a fit determines them:
/// seconds + tokens * linear + squares * quadratic, with the coefficients of TimeModel.
struct AssumedHop {
  double seconds = 0;
  double tokens = 0;
  double squares = 0;

  [[nodiscard]] double operator()(double linear, double quadratic) const noexcept {
    return seconds + tokens * linear + squares * quadratic;
  }
};

/// Parameters for fitting the communication of groups of several ranks.
struct FitGroups {
  /// Number of ranks per node. Groups of up to this size use inside_node; larger groups use between_nodes.
  std::int64_t ranks_per_node = 1;
  double overlap = 1;          ///< v, the fraction of attention time that can hide communication, from 0 to 1
  AssumedHop inside_node{};    ///< assumed TimeModel::inside_node
  AssumedHop between_nodes{};  ///< assumed TimeModel::between_nodes
};

/// Fits a time model by least squares without negative coefficients, made robust by Huber's weights (1964): a
/// residual that is large compared with the median residual counts by its absolute value instead of its
/// square. Deterministic, but the order of observations may change the last digits. O(n log n).
///
/// Returns nullopt, in which case the caller should keep its current model, if
/// - fewer than 16 observations are usable (finite, not negative, and above 0 seconds);
/// - the observations cannot distinguish the cost of tokens from the cost of squares (for example, because
///   all samples have the same length);
/// - every solution has a negative coefficient, neither tokens nor squares take time, or a coefficient is
///   neither 0 nor a normal double.
///
/// If only the overhead cannot be distinguished (for example, because micro-batches are filled to within 1 %
/// of each other), the overhead is 0, and its time is attributed to tokens and squares.
///
/// Observations of groups of several ranks also determine c (see TimeModel). The fit alternates, a bounded
/// number of times, between fitting the coefficients and classifying the observations by whether attention
/// hides their communication. The c of a link stays at the value assumed in `groups`, and is nullopt in the
/// model, if
/// - fewer than 4 observations use the link, in which case they are excluded from the fit;
/// - the effect of the link's communication on the times does not exceed the noise;
/// - its term cannot be distinguished from other terms, for example because all groups have the same size.
///
/// If all communication over a link is hidden, the observations only give an upper bound on c. If this bound
/// is below the assumed value, c is set to the bound.
///
/// v (FitGroups::overlap) is not fitted. If communication is hidden, the times do not depend on v; otherwise,
/// a larger v cannot be distinguished from a smaller c or a smaller quadratic coefficient.
[[nodiscard]] std::optional<TimeModel> fit_time_model(std::span<const CostObservation> observations,
                                                      const FitGroups& groups = {});

/// Cost of one token in cost models without a quadratic term. The choice does not affect the ratio of the
/// costs of two samples, but finer units reduce the rounding error of other costs, such as communication.
enum class TokenUnits : std::int16_t {
  one = 1,
  fine = 24576,  ///< used if communication has a cost, since it costs less to pass a token than to compute it
};

/// Returns a cost model with integer coefficients, which partitions need, in the proportions of `times`. The
/// ratio linear / quadratic is rounded to a multiple of 1/16 or, if it is at least 1024, to an integer. If
/// the ratio is above 2^30, the quadratic coefficient is 0, and the linear one is `units`. Precondition:
/// linear or quadratic is above 0.
///
/// Example: 3e-6 s per token and 1e-9 s per squared length give {3000, 1}.
[[nodiscard]] CostModel cost_model_of(const TimeModel& times, TokenUnits units = TokenUnits::one);

/// Converts seconds to the units of cost_model_of(times, units). The result is at most 10^14.
[[nodiscard]] Cost cost_of_seconds(double seconds, const TimeModel& times,
                                   TokenUnits units = TokenUnits::one);
/// Returns the overhead of a micro-batch in the units of cost_model_of(times, units).
[[nodiscard]] Cost overhead_cost_of(const TimeModel& times, TokenUnits units = TokenUnits::one);

}  // namespace evenkeel
