#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/plan/settings.hpp"
#include "stream/ledger.hpp"
#include "stream/settings.hpp"

namespace evenkeel::bench {

/// Devices that generate samples and train on them.
struct SimulatedDevices {
  PlanSettings plan;       ///< of training on all of them
  std::int64_t slots = 1;  ///< samples that all of them generate side by side, a token each at a time
  double token_of_cost =
      0;  ///< tokens that a slot generates while training does a unit of cost on all devices
  /// The part of the devices that train; the others generate. In a synchronous job all do both in turn.
  double trainers = 0.5;
};

/// What came of a job, in the time of one token.
struct SimulatedRun {
  double time = 0;
  std::int64_t steps = 0;
  std::int64_t tokens = 0;    ///< of trained responses
  std::int64_t stale = 0;     ///< samples that were dropped
  double mean_staleness = 0;  ///< of trained groups
  double trained_length = 0;  ///< mean response of trained samples over that of all that were generated
};

/// Every step generates its groups, in order, and then trains on them.
[[nodiscard]] SimulatedRun synchronous_job(std::span<const stream::WaitingGroup> groups,
                                           std::int64_t groups_of_step, const SimulatedDevices& devices);

/// Generation goes on while steps are trained: as many groups are started as slots and tickets allow, and
/// the step former takes from those that are ready. As many steps as a synchronous job of these groups.
[[nodiscard]] SimulatedRun asynchronous_job(std::span<const stream::WaitingGroup> groups,
                                            std::int64_t groups_of_step, const SimulatedDevices& devices,
                                            const stream::StreamSettings& settings);

}  // namespace evenkeel::bench
