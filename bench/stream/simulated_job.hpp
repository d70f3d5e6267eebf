#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/plan/settings.hpp"
#include "stream/ledger.hpp"
#include "stream/settings.hpp"

namespace evenkeel::bench {

/// Devices that generate samples and train on them.
struct SimulatedDevices {
  PlanSettings plan;  ///< for training on all of them
  /// Number of samples that all of them generate in parallel, one token each at a time.
  std::int64_t slots = 1;
  double token_of_cost =
      0;  ///< number of tokens that a slot generates in the time in which all devices train one unit of cost
  /// The share of the devices that train; the others generate. In a synchronous job, all devices alternate
  /// between both.
  double trainers = 0.5;
};

/// The results of a job, in units of the time of one token.
struct SimulatedRun {
  double time = 0;
  std::int64_t steps = 0;
  std::int64_t tokens = 0;    ///< of trained responses
  std::int64_t stale = 0;     ///< number of dropped samples
  double mean_staleness = 0;  ///< of trained groups
  /// Mean response length of trained samples relative to that of all generated samples.
  double trained_length = 0;
};

/// In every step, first generates its groups, in order, and then trains on them.
[[nodiscard]] SimulatedRun synchronous_job(std::span<const stream::WaitingGroup> groups,
                                           std::int64_t groups_of_step, const SimulatedDevices& devices);

/// Generates while steps are trained: as many groups are started as slots and tickets allow, and the step
/// former takes from the ready ones. Makes the same number of steps as a synchronous job with these groups.
[[nodiscard]] SimulatedRun asynchronous_job(std::span<const stream::WaitingGroup> groups,
                                            std::int64_t groups_of_step, const SimulatedDevices& devices,
                                            const stream::StreamSettings& settings);

}  // namespace evenkeel::bench
