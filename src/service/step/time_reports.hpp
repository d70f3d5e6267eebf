#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"
#include "plan/settings/measured_cost.hpp"

namespace evenkeel {

/// Times that the trainer has reported, and the costs that all ranks together fit to these times, by profile.
class TimeReports {
 public:
  /// Starts with the costs saved in `from`, or with the configured costs for profiles that are not in `from`.
  /// Counts steps from `from.next_step`. `mesh` has the sizes of the mesh.
  TimeReports(const Config& config, const GridPoint& mesh, const ServiceState& from);

  /// Returns whether the profile's cost is measured. Thread-safe.
  [[nodiscard]] bool is_measured(std::string_view profile) const { return profiles_.contains(profile); }
  /// Keeps an observation until the next fit. The number of kept observations is limited by the profile's
  /// window. Thread-safe. Precondition: is_measured().
  void add(std::string_view profile, const CostObservation& observation);

  /// Call this at the beginning of every step of the profile. Collective over `comm`. If a fit is due,
  /// gathers the observations of all ranks and fits the same costs on each rank. Does nothing if the
  /// profile's cost is not measured.
  void begin_step(const Communicator& comm, std::string_view profile);

  /// Returns the cost used for balancing: the latest fit or, before the first fit, the configured cost.
  /// Precondition: is_measured().
  [[nodiscard]] const CostInUse& current_cost(std::string_view profile) const;
  /// Returns all costs measured so far, by profile.
  [[nodiscard]] std::map<std::string, SavedCost> saved_costs() const;

 private:
  struct MeasuredProfile {
    MeasuredCost settings;
    MeasuredCostModel model;
    std::int64_t steps = 0;  // number of steps of the profile that have begun so far
    std::deque<CostObservation> reported = {};
  };

  std::mutex mutex_;  // guards MeasuredProfile::reported
  std::map<std::string, MeasuredProfile, std::less<>> profiles_;
};

/// Converts a measured cost for a ServiceState; nullopt if the cost was not measured.
[[nodiscard]] std::optional<SavedCost> saved_cost(const CostInUse& cost);

/// Measures the seconds since the previous lap.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace evenkeel
