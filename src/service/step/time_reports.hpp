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

/// The times that a trainer reports, and the costs that all ranks measure from them together; for each
/// profile its own.
class TimeReports {
 public:
  /// Costs begin as the configuration has them, or as `from` does, whose next step is the first one here.
  /// `mesh` has the sizes of the mesh. Throws ConfigError as Config::plan_settings() does.
  TimeReports(const Config& config, const GridPoint& mesh, const ServiceState& from);

  /// Whether the profile's cost is measured. Any thread; so is add().
  [[nodiscard]] bool wanted(std::string_view profile) const { return profiles_.contains(profile); }
  /// Keeps an observation until the next fit, at most as many as the profile's window holds. Precondition:
  /// wanted().
  void add(std::string_view profile, const CostObservation& observation);

  /// Collective over `comm`, at the beginning of every step of the profile: where it is due, gathers what all
  /// ranks reported, and fits the same costs on each. Without effect on profiles that are not measured.
  void begin_step(const Communicator& comm, std::string_view profile);

  /// What was measured. Precondition: wanted().
  [[nodiscard]] const CostInUse& in_use(std::string_view profile) const;
  /// All that was measured so far, by profile.
  [[nodiscard]] std::map<std::string, SavedCost> saved() const;

 private:
  struct Measured {
    MeasuredCost settings;
    MeasuredCostModel model;
    std::int64_t steps = 0;  // begun
    std::deque<CostObservation> reported = {};
  };

  std::mutex mutex_;  // of `reported`
  std::map<std::string, Measured, std::less<>> profiles_;
};

/// What a state keeps of measured costs; nothing where nothing was measured.
[[nodiscard]] std::optional<SavedCost> saved_cost(const CostInUse& cost);

/// Seconds since the last lap.
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
