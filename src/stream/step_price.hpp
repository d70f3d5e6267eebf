#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::stream {

/// What a step's time depends on, of one group.
struct GroupWork {
  double load = 0;     ///< of all its units, in the units of the cost
  double tokens = 0;   ///< shared ones once
  double longest = 0;  ///< unit
  /// The times of what runs as a whole, each on as many ranks as it may; those that matter, longest first.
  std::vector<double> units{};
};

/// How long a step of some groups takes, without planning it: what an even plan of its work would take, or
/// more where a few long samples are in the way; and the overhead of its micro-batches. An estimate from
/// below of planned_time(), in the same units.
class StepPrice {
 public:
  /// For steps of that many of these groups. Throws as CostModel does.
  StepPrice(std::span<const WaitingGroup> groups, std::int64_t groups_of_step, const PlanSettings& settings);

  [[nodiscard]] const GroupWork& operator[](std::size_t group) const noexcept { return works_[group]; }
  [[nodiscard]] std::size_t size() const noexcept { return works_.size(); }

  struct Time {
    double all = 0;   ///< how long the step takes
    double idle = 0;  ///< of that, what an even plan would not take
  };
  /// A step's groups, as far as its time depends on them.
  struct Sums {
    double load = 0;
    double tokens = 0;
    std::vector<double> units{};  ///< those that matter, longest first
    double stacked = 0;           ///< what they alone take
  };
  /// Of a step with these groups, and with `unknown` more that are like the average of all.
  [[nodiscard]] Sums sums_of(std::span<const std::size_t> groups, std::int64_t unknown = 0) const;
  /// The same with `in` instead of `out`. O(units that matter).
  [[nodiscard]] Sums exchanged(const Sums& sums, std::size_t out, std::size_t in) const;
  [[nodiscard]] Time time_of(const Sums& sums) const noexcept;
  [[nodiscard]] Time operator()(std::span<const std::size_t> groups, std::int64_t unknown = 0) const {
    return time_of(sums_of(groups, unknown));
  }

 private:
  std::vector<GroupWork> works_;
  double ranks_ = 1;        ///< that the work is divided by, each as fast as the slowest
  std::size_t places_ = 1;  ///< that run units side by side
  double tokens_a_round_ = 1;
  double overhead_ = 0;
  double mean_load_ = 0;
  double mean_tokens_ = 0;
};

/// The samples of these groups as a plan needs them, numbered in order.
[[nodiscard]] LengthTable table_of(std::span<const WaitingGroup> groups);

/// When the plan of a step with these groups ends, in the units of the cost: by plan_step, where ranks meet
/// once a step, with the overhead of its micro-batches. Throws as plan_step does.
[[nodiscard]] double planned_time(std::span<const WaitingGroup> groups, const PlanSettings& settings);

}  // namespace evenkeel::stream
