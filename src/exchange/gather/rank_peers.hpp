#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "plan/assign/dp_rank_plans.hpp"

namespace evenkeel {

/// The ranks of a communicator along data parallelism as each other's PlanningPeers. Errors go to `work`;
/// where any rank's work has failed, all leave out what follows. Refers to both, which must outlive it.
class RankPeers final : public PlanningPeers {
 public:
  RankPeers(const Communicator& comm, GuardedWork& work) : comm_(comm), work_(work) {}

  void locally(const std::function<void()>& work) override { work_(work); }
  /// One all-reduce of 16 words as a rule; takes no memory. Collective.
  void take_largest(std::span<std::int64_t> numbers) override;

  /// Seconds that went into agreeing, waits for other ranks included.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  Communicator comm_;
  GuardedWork& work_;
  double seconds_ = 0;
};

}  // namespace evenkeel
