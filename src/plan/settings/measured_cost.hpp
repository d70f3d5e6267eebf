#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "cost/cost_fit.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Returns an observation to which a cost model can be fitted: the tokens and squared lengths of a
/// micro-batch's samples, and the time that DP rank `rank` took to run the micro-batch.
/// - Padded samples count with their padded lengths, and shared prefixes count once. Beyond the window of the
///   cost model, squares grow linearly.
/// - Seconds are converted to those of a rank of speed 1000.
/// - With groups of different sizes, all members run the whole micro-batch together, so each member's time is
///   an observation of the whole micro-batch.
/// Local. Precondition: `assignment` and `plan` are of the same step.
[[nodiscard]] CostObservation make_observation(const LengthTable& table, const StepAssignment& assignment,
                                               const MicroBatchPlan& plan, const PlanSettings& settings,
                                               DpRank rank, double seconds);

/// The cost of passing the keys and values of one token to another rank.
struct HopInUse {
  double seconds = 0;
  Cost cost = 0;  ///< in the units of the cost model in use
  /// Whether the last fit could not determine this cost, so it is from an earlier fit or the configuration.
  bool kept = false;

  friend bool operator==(const HopInUse&, const HopInUse&) = default;
};
struct CommunicationInUse {
  HopInUse inside_node;
  HopInUse between_nodes;

  friend bool operator==(const CommunicationInUse&, const CommunicationInUse&) = default;
};

/// The cost model in use, and how it was measured.
struct CostInUse {
  CostModel model = CostModel::tokens();
  std::optional<TimeModel>
      times;  ///< times from which the model was made; unset if the model is the configured one
  std::int64_t observations = 0;  ///< number of observations in the last attempt at a fit
  bool kept = false;              ///< whether the last attempt at a fit failed, so the previous model is kept

  /// Measured constant cost of a micro-batch in the model's units; nullopt before the first fit.
  std::optional<Cost> overhead = std::nullopt;
  /// Communication costs in use. Set by the first fit if micro-batches have groups of different sizes;
  /// nullopt before it, and with groups of equal size.
  std::optional<CommunicationInUse> communication = std::nullopt;

  /// Replaces the configured costs in `balance` with the measured ones.
  void apply_to(BalanceSettings& balance) const;
  friend bool operator==(const CostInUse&, const CostInUse&) = default;
};

/// Fits a cost model to the latest observations. A value type: the same observations in the same order give
/// the same model.
class MeasuredCostModel {
 public:
  /// Starts with the model `initial`, which is used until the first fit. All later models have its window
  /// (CostModel::window). At most `window` observations are kept. `groups` has the configured communication
  /// costs, in the units of `initial`, if micro-batches have groups of different sizes; its ranks_per_node
  /// must then be set. If no fit can determine a communication cost, its ratio to the cost of a token stays
  /// the same (or its ratio to the cost of a squared length, if tokens cost zero).
  MeasuredCostModel(const CostModel& initial, std::int64_t window,
                    std::optional<CommunicationSettings> groups = std::nullopt);

  /// Adds observations, oldest first, and fits the model again. If fit_time_model() returns nullopt, the
  /// model is unchanged. O(window log window).
  void learn(std::span<const CostObservation> observations);

  /// Restores the result of an earlier model's fit. That model's observations are not restored, so later fits
  /// do not use them. Precondition: `times` is a possible result of fit_time_model().
  void restore_fit(const TimeModel& times, std::int64_t observations);

  [[nodiscard]] const CostInUse& current_cost() const noexcept { return in_use_; }

 private:
  [[nodiscard]] AssumedHop current_hop(std::optional<Cost> configured, Cost default_part,
                                       std::optional<double> measured) const;
  [[nodiscard]] FitGroups current_groups() const;
  void apply_fit(const TimeModel& times);

  CostModel initial_;
  std::optional<CommunicationSettings> communication_;
  std::int64_t window_;
  std::deque<CostObservation> latest_;
  CostInUse in_use_;
};

}  // namespace evenkeel
