#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stream/event.hpp"
#include "stream/settings.hpp"

namespace evenkeel::stream {

/// A sample of a group that waits or is in a step, with all data that form_step() needs. See SampleAccepted
/// for the members without comments.
struct WaitingSample {
  std::int64_t arrival = 0;  ///< number of the sample's SampleAccepted event
  std::int64_t index = 0;
  std::int64_t prompt = 0;    ///< number of prompt tokens
  std::int64_t response = 0;  ///< number of response tokens
  std::int64_t version = 0;
  std::int64_t bytes = 0;
  std::uint32_t content = 0;  ///< SampleAccepted::content; not sent to jobs
  std::int64_t missing = 0;   ///< number of late fields that have not been added yet; not sent to jobs

  friend bool operator==(const WaitingSample&, const WaitingSample&) = default;
};

/// The ledger's state of a group that has not ended. Such a group has samples that wait or are in a step, or
/// it was closed or aborted, which affects samples that arrive later.
struct GroupState {
  Uid uid;
  std::vector<WaitingSample> samples;  ///< samples that wait or are in a step, in ascending order of index
  /// Indexes of samples that were dropped or aborted. Aborted samples remain in `samples` until they are
  /// dropped.
  std::set<std::int64_t> gone;
  /// Numbers of the group's GroupClosed, GroupAborted and FieldsAdded events, ascending.
  std::vector<std::int64_t> events;
  bool closed = false;
  /// Whether the deadline has closed the group, so samples that lack fields are dropped.
  bool expired = false;
  bool aborted = false;     ///< whether the whole group was aborted
  std::int64_t passed = 0;  ///< see WaitingGroup::passed
  /// While the group is ready, its key in Ledger::ready_, which is last_event(); otherwise nullopt.
  std::optional<std::int64_t> ready_key;
  /// While the group is open, its key in Ledger::open_, which is first_event(); otherwise nullopt.
  std::optional<std::int64_t> open_key;
  std::optional<std::int64_t> step;  ///< number of the step that contains the group; nullopt if none does
  /// Samples that were withdrawn from `step`, kept until the step is trained.
  std::vector<WaitingSample> withdrawn;

  /// Return the number of the first or last event among the group's arrivals, fields, closing and aborts.
  /// Precondition: the group has such an event.
  [[nodiscard]] std::int64_t first_event() const;
  [[nodiscard]] std::int64_t last_event() const;
  /// Returns whether a sample of the group would be dropped as late if it arrived now.
  [[nodiscard]] bool drops_new_samples() const noexcept { return closed || aborted || step.has_value(); }
};

/// Result of evaluate_group().
struct GroupVerdict {
  /// Arrival numbers of samples to drop, with the reasons.
  std::vector<std::pair<std::int64_t, DropReason>> due;
  bool is_ready = false;  ///< whether a step may take the group; false if `due` is not empty
  bool is_over = false;   ///< whether the group has no samples and does not accept any more
};

/// Applies the settings to a group that is not in a step. A pure function.
/// 1. Aborted samples are due to be dropped, as are stale samples (unless on_stale is OnStale::mask) and, in
///    an expired group, samples that lack late fields.
/// 2. If the number of other samples, including those that may still arrive, is below min_group, all of them
///    are due to be dropped.
/// 3. The group is complete if it is closed or aborted, if the stream has `ended`, or if every index has
///    arrived or was dropped. A complete group is ready if it has samples, none of them is due to be dropped,
///    and all of them have all late fields.
[[nodiscard]] GroupVerdict evaluate_group(const GroupState& group, const StreamSettings& settings,
                                          std::int64_t version, bool ended);

}  // namespace evenkeel::stream
