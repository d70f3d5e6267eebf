#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stream/ledger.hpp"

namespace evenkeel::stream {

/// Numbers of arrivals in several ledgers, so that no two are the same. With one ledger they are its own.
class JointArrivals {
 public:
  /// 1 or more.
  explicit JointArrivals(std::size_t ledgers) : ledgers_(static_cast<std::int64_t>(ledgers)) {}

  [[nodiscard]] std::int64_t number_of(std::size_t ledger, std::int64_t arrival) const noexcept {
    return arrival * ledgers_ + static_cast<std::int64_t>(ledger);
  }
  [[nodiscard]] std::size_t ledger_of(std::int64_t number) const noexcept {
    return static_cast<std::size_t>(number % ledgers_);
  }
  [[nodiscard]] std::int64_t arrival_of(std::int64_t number) const noexcept { return number / ledgers_; }

 private:
  std::int64_t ledgers_;
};

/// The groups that wait in several ledgers as those of one: the first of each in turn, then the second of
/// each. Arrivals have their joint numbers. Throws InputError for a group that waits in two ledgers, which
/// are called so.
[[nodiscard]] std::vector<WaitingGroup> joint_groups(std::span<const std::vector<WaitingGroup>> of_ledgers,
                                                     std::span<const std::string> names);

/// What each ledger has of a step that was formed of such groups, at its own version: none of them, maybe.
[[nodiscard]] std::vector<StepFormed> parts_of(const StepFormed& step, std::span<const WaitingGroup> groups,
                                               std::span<const std::int64_t> versions);

/// The step of these parts, one of each ledger: its groups are those of the first, then those of the second.
[[nodiscard]] FormedStep joint_step(std::span<const FormedStep> parts);

}  // namespace evenkeel::stream
