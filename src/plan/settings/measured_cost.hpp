#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "cost/cost_fit.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// What a micro-batch's work is made of, for the seconds that DP rank `rank` took for it: the tokens and
/// squared lengths of its samples (padded ones where it is padded), of shared prefixes once, squares straight
/// on beyond the cost's window. Seconds are those of a rank of speed 1000. With groups of their own sizes
/// all members run all of it together, so that each member's seconds are an observation of the whole. Local.
/// `assignment` and `plan` come from the same step.
[[nodiscard]] CostObservation observe(const LengthTable& table, const StepAssignment& assignment,
                                      const MicroBatchPlan& plan, const PlanSettings& settings, DpRank rank,
                                      double seconds);

/// What it costs to pass the keys and values of one token on by one rank.
struct HopInUse {
  double seconds = 0;
  Cost cost = 0;      ///< in the units of the model in use
  bool kept = false;  ///< the last fit could not tell it: as an earlier one had it, else as configured

  friend bool operator==(const HopInUse&, const HopInUse&) = default;
};
struct CommunicationInUse {
  HopInUse inside_node;
  HopInUse between_nodes;

  friend bool operator==(const CommunicationInUse&, const CommunicationInUse&) = default;
};

/// The cost model in use, and what measuring has to say about it.
struct CostInUse {
  CostModel model = CostModel::tokens();
  std::optional<TimeModel> times;  ///< what the model was made of; unset: it is the configured one
  std::int64_t observations = 0;   ///< that the last attempt at a fit had
  bool kept = false;               ///< that attempt found no model, so that the one before stayed

  /// Of a micro-batch in the model's units, where it was measured.
  std::optional<Cost> overhead = std::nullopt;
  /// Where micro-batches have groups of their own sizes, from the first fit on.
  std::optional<CommunicationInUse> communication = std::nullopt;

  /// Plans by it: what was measured takes the place of what is configured.
  void use_in(BalanceSettings& balance) const;
  friend bool operator==(const CostInUse&, const CostInUse&) = default;
};

/// Fits costs to the latest observations. A value type: equal observations in equal order make equal models.
class MeasuredCostModel {
 public:
  /// `initial` holds until the first fit, and its window for good. At most `window` observations are kept.
  /// `groups` says what is configured of communication where micro-batches have groups of their own sizes, in
  /// the units of `initial`; its ranks_per_node is then set. What no fit can tell of communication keeps its
  /// share of what a token costs (of a squared length, where tokens cost nothing).
  MeasuredCostModel(const CostModel& initial, std::int64_t window,
                    std::optional<CommunicationSettings> groups = std::nullopt);

  /// Takes in observations, older ones first, and fits anew (fit_time_model). Where they cannot tell
  /// tokens from squares, the model stays as it was. O(window log window).
  void learn(std::span<const CostObservation> observations);

  /// Takes over what an earlier model had measured; observations from here on are fitted without those that
  /// it was made of. Precondition: `times` is what fit_time_model() may give.
  void take_over(const TimeModel& times, std::int64_t observations);

  [[nodiscard]] const CostInUse& in_use() const noexcept { return in_use_; }

 private:
  [[nodiscard]] PresentHop present(std::optional<Cost> configured, Cost default_part,
                                   std::optional<double> measured) const;
  [[nodiscard]] FitGroups present_groups() const;
  void use(const TimeModel& times);

  CostModel initial_;
  std::optional<CommunicationSettings> groups_;
  std::int64_t window_;
  std::deque<CostObservation> latest_;
  CostInUse in_use_;
};

}  // namespace evenkeel
