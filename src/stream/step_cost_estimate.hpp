#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/settings.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::stream {

/// Contribution of one group of samples to a step's time. A unit is work that is not divided into several
/// micro-batches; its time is the time on the largest group of ranks that it may use.
struct GroupWork {
  double load = 0;     ///< total cost of the group's units
  double tokens = 0;   ///< number of tokens in the group; tokens of a shared prompt count once
  double longest = 0;  ///< time of the group's longest unit
  /// Times of the group's large units, in descending order. Small units are omitted, since they can run while
  /// a rank would otherwise be idle.
  std::vector<double> units{};
};

/// Estimates the time of a step without planning the step. The estimate is the time of an even plan, or more
/// if a few long samples make an even plan impossible, plus the overhead of the micro-batches. The estimate
/// is approximately a lower bound on planned_time(), in the same unit.
class StepCostEstimate {
 public:
  /// Prepares estimates for steps with `groups_of_step` of these groups. The functions below identify a group
  /// by its position in `groups`. Throws LimitError if a cost is 2^62 or more (see CostModel).
  StepCostEstimate(std::span<const WaitingGroup> groups, std::int64_t groups_of_step,
                   const PlanSettings& settings);

  [[nodiscard]] const GroupWork& operator[](std::size_t group) const noexcept { return works_[group]; }
  [[nodiscard]] std::size_t size() const noexcept { return works_.size(); }

  struct Time {
    double all = 0;   ///< time of the step, including the overhead of its micro-batches
    double idle = 0;  ///< time lost compared with an even plan, because of long samples
  };
  /// Sums over the groups of a step. time_of() computes the step's time from them.
  struct Sums {
    double load = 0;
    double tokens = 0;
    std::vector<double> units{};  ///< times of the groups' large units, descending
    double large_unit_time = 0;   ///< lower bound on the time in which the DP ranks can run the large units
  };
  /// Returns the sums of a step with these groups and `unknown` more groups, which have average load and
  /// tokens and do not have large units.
  [[nodiscard]] Sums sums_of(std::span<const std::size_t> groups, std::int64_t unknown = 0) const;
  /// Returns the sums with group `in` in place of group `out`. O(number of large units).
  [[nodiscard]] Sums sums_after_swap(const Sums& sums, std::size_t out, std::size_t in) const;
  [[nodiscard]] Time time_of(const Sums& sums) const noexcept;

 private:
  std::vector<GroupWork> works_;
  /// Number of DP ranks. If they have different speeds, the equivalent number of ranks that are as slow as
  /// the slowest one.
  double equivalent_ranks_ = 1;
  std::size_t dp_ranks_ = 1;     ///< number of DP ranks, which run units in parallel
  double tokens_per_round_ = 1;  ///< maximum number of tokens in a round: one micro-batch on each DP rank
  double overhead_ = 0;          ///< time overhead per round, in units of the cost
  double mean_load_ = 0;
  double mean_tokens_ = 0;
};

/// Plans a step with these groups (plan_step()), and returns its time in units of the cost. The result is the
/// time of the slowest DP rank if ranks wait for each other only at the end of the step, plus the overhead of
/// the micro-batches. Throws LimitError if a sample exceeds a cap, and ConfigError for incompatible settings
/// (see plan_step()).
[[nodiscard]] double planned_time(std::span<const WaitingGroup> groups, const PlanSettings& settings);

}  // namespace evenkeel::stream
