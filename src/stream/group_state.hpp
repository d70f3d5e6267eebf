#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stream/event.hpp"
#include "stream/settings.hpp"

namespace evenkeel::stream {

/// A sample as a step former sees it.
struct WaitingSample {
  std::int64_t arrival = 0;  ///< the number of its SampleAccepted
  std::int64_t index = 0;
  std::int64_t prompt = 0;
  std::int64_t response = 0;
  std::int64_t version = 0;
  std::int64_t bytes = 0;
  std::uint32_t content = 0;  ///< its hash, which a job does not get

  friend bool operator==(const WaitingSample&, const WaitingSample&) = default;
};

/// A group of which something waits or is in a step.
struct GroupState {
  Uid uid;
  std::vector<WaitingSample> samples;  ///< by index
  std::set<std::int64_t> gone;         ///< indexes that were dropped, or aborted and may yet be in `samples`
  std::vector<std::int64_t> events;    ///< its closing and aborts, ascending
  bool closed = false;
  bool aborted = false;                  ///< as a whole
  std::int64_t passed = 0;               ///< see WaitingGroup
  std::optional<std::int64_t> place;     ///< in the queue, while it is ready
  std::optional<std::int64_t> first;     ///< its first event, while it is open
  std::optional<std::int64_t> step;      ///< that has it
  std::vector<WaitingSample> withdrawn;  ///< from that step, until it is trained

  /// The first and the last of the arrivals and events that make it what it is. Precondition: there is one.
  [[nodiscard]] std::int64_t first_event() const;
  [[nodiscard]] std::int64_t last_event() const;
  /// Whether a sample that comes now comes too late.
  [[nodiscard]] bool takes_no_more() const noexcept { return closed || aborted || step.has_value(); }
};

/// What the settings make of a group that is in no step.
struct GroupVerdict {
  std::vector<std::pair<std::int64_t, DropReason>> due;  ///< arrivals to drop
  bool is_ready = false;
  bool is_over = false;  ///< it has no samples, and none is taken any more
};

[[nodiscard]] GroupVerdict judge(const GroupState& group, const StreamSettings& settings,
                                 std::int64_t version, bool ended);

}  // namespace evenkeel::stream
