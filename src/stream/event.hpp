#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "stream/key.hpp"

namespace evenkeel::stream {

/// Returns the value if it is a signed 64-bit integer, otherwise nullopt. This is stricter than
/// nlohmann::json, which converts `2.5` and `true` to integers, and `1e67` to an arbitrary integer.
[[nodiscard]] inline std::optional<std::int64_t> parse_integer(const nlohmann::json& value) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > most;
  if (!value.is_number_integer() || is_too_large) return std::nullopt;
  return value.get<std::int64_t>();
}

/// Returns a signed 64-bit integer. Throws InputError naming `what` if the value is not such an integer.
[[nodiscard]] inline std::int64_t require_integer(const nlohmann::json& value, const char* what) {
  if (const std::optional<std::int64_t> integer = parse_integer(value)) return *integer;
  throw InputError(what, value.dump() + " is not a 64-bit integer");
}

/// Returns a uid as JSON: a string, an integer, or null if it is missing.
[[nodiscard]] nlohmann::json json_of(const Uid& uid);

/// Reason why a sample was not trained.
enum class DropReason : std::uint8_t {
  stale,      ///< older than max_staleness allows
  aborted,    ///< aborted by its producer, alone or with its group
  too_small,  ///< the rest of its group is smaller than min_group
  late,       ///< arrived when its group no longer accepted samples, or lacked a field at the deadline
  filtered,   ///< removed by the job's filter, since it is too long or empty
};
inline constexpr std::size_t num_drop_reasons = 5;
/// Returns "stale", "aborted", "too_small", "late" or "filtered".
[[nodiscard]] std::string_view to_string(DropReason reason) noexcept;

/// A new sample was accepted. The number of this event is the sample's arrival number.
struct SampleAccepted {
  SampleKey key;
  std::int64_t prompt = 0;    ///< number of prompt tokens
  std::int64_t response = 0;  ///< number of response tokens
  std::int64_t version = 0;   ///< policy version of the sample's oldest token
  std::int64_t bytes = 0;     ///< bytes that the sample takes in the store; they count toward the capacity
  std::uint32_t content = 0;  ///< hash of the sample except its versions; does not change if it is sent again
  /// Producer that sent the sample; empty if the sender did not name one. If the sample starts a group, the
  /// group preferably uses a ticket of this producer (see TicketsGranted).
  std::string holder = {};

  friend bool operator==(const SampleAccepted&, const SampleAccepted&) = default;
};

/// Fields were added to a sample that waits (StreamSettings::late_fields). The store keeps the fields' values
/// under this event's number.
struct FieldsAdded {
  SampleKey key;
  std::int64_t bytes = 0;  ///< bytes that the fields take in the store; they count toward the capacity
  std::map<std::string, std::uint32_t> content{};  ///< hash of each field's value, by name

  friend bool operator==(const FieldsAdded&, const FieldsAdded&) = default;
};

/// Samples arrived again, and their senders were informed that they are duplicates.
struct DuplicatesReported {
  std::int64_t count = 0;

  friend bool operator==(const DuplicatesReported&, const DuplicatesReported&) = default;
};

/// The group was closed: samples that arrive later are dropped as late.
struct GroupClosed {
  Uid uid;
  bool by_deadline = false;  ///< closed by the deadline, not by a producer

  friend bool operator==(const GroupClosed&, const GroupClosed&) = default;
};

/// A producer aborted one sample or, if `index` is not set, the whole group, possibly before any sample
/// arrived. A group that is already in a step remains there, unless `in_step` is set; in that case, the whole
/// group leaves its step.
struct GroupAborted {
  Uid uid;
  std::optional<std::int64_t> index = std::nullopt;
  std::string reason = {};
  bool in_step = false;  ///< whether the group leaves its step; allowed only while no job has the step

  friend bool operator==(const GroupAborted&, const GroupAborted&) = default;
};

/// The policy now has this version. If it is lower than the current one, for example after a job was resumed,
/// the current version does not change, and only the fact that a version was published is recorded
/// (Totals::has_version).
struct VersionPublished {
  std::int64_t version = 0;

  friend bool operator==(const VersionPublished&, const VersionPublished&) = default;
};

/// Samples were dropped instead of being used for training, all for the same reason.
struct SamplesDropped {
  std::vector<std::int64_t> arrivals;  ///< arrival number of each dropped sample
  DropReason reason = DropReason::stale;

  friend bool operator==(const SamplesDropped&, const SamplesDropped&) = default;
};

/// A producer was granted tickets, each of which permits it to start one group. The first sample of a new
/// group uses one ticket: the oldest ticket of the sample's holder or, if this holder has none, the oldest
/// ticket of any holder. Aborting a new group before its first sample also uses one.
struct TicketsGranted {
  std::int64_t groups = 0;    ///< number of tickets granted, each of which is for one group
  std::int64_t granted = 0;   ///< time of the grant, in milliseconds since 1970
  std::int64_t deadline = 0;  ///< time at which unused tickets expire, in milliseconds since 1970
  std::string holder = {};    ///< owner of the tickets; empty if the request did not name one
  /// Identity of the request, which a retry repeats; empty if the request has none.
  std::string request = {};

  friend bool operator==(const TicketsGranted&, const TicketsGranted&) = default;
};

/// Tickets expired for one of two reasons: either their deadline is at most `time`, so their holders are
/// presumed dead, or they were granted at a version below `version`, so their groups would be stale.
struct TicketsExpired {
  std::int64_t time = -1;  ///< time of this event, in milliseconds since 1970
  std::int64_t version = 0;

  friend bool operator==(const TicketsExpired&, const TicketsExpired&) = default;
};

/// A ready group that remained in the queue while groups that became ready later were put into a step.
struct PassedOver {
  Uid uid;
  std::int64_t count = 0;  ///< number of groups that became ready later but are already in a step

  friend bool operator==(const PassedOver&, const PassedOver&) = default;
};

/// A group in a step.
struct FormedGroup {
  Uid uid;
  /// Number of the group's samples. If the group has changed since it was chosen, the ledger rejects the
  /// step.
  std::int64_t samples = 0;

  friend bool operator==(const FormedGroup&, const FormedGroup&) = default;
};

/// A step was formed. The buffer stores this event before it sends the step to a job, so that it can send the
/// same step again.
struct StepFormed {
  std::int64_t step = 0;
  std::int64_t version = 0;          ///< policy version when the step was formed
  std::vector<FormedGroup> groups;   ///< groups of the step; the step has their samples in this order
  std::vector<std::int64_t> masked;  ///< arrival numbers of stale samples in the step (OnStale::mask)
  /// Ready groups that remain in the queue, with the new values of PassedOver::count. Groups with a count of
  /// 0 are omitted.
  std::vector<PassedOver> passed;

  friend bool operator==(const StepFormed&, const StepFormed&) = default;
};

/// The job has saved its state after this step, so it will not request this step or earlier ones again.
struct StepTrained {
  std::int64_t step = 0;
  /// Whether `step` may be higher than the number of any formed step. The steps in between are then skipped.
  bool skips = false;

  friend bool operator==(const StepTrained&, const StepTrained&) = default;
};

/// The stream has ended: no more samples will arrive, and incomplete groups are closed.
struct StreamEnded {
  friend bool operator==(const StreamEnded&, const StreamEnded&) = default;
};

/// One event with its number. Numbers increase in the order in which a ledger applies events.
struct Event {
  using What = std::variant<SampleAccepted, FieldsAdded, DuplicatesReported, GroupClosed, GroupAborted,
                            VersionPublished, SamplesDropped, TicketsGranted, TicketsExpired, StepFormed,
                            StepTrained, StreamEnded>;
  std::int64_t number = 0;
  What what;

  friend bool operator==(const Event&, const Event&) = default;
};

/// Returns an event as JSON, such as {"number": 12, "event": "closed", "uid": "q1", ...}. Stores encode this
/// JSON as CBOR.
[[nodiscard]] nlohmann::json to_json(const Event& event);
/// Inverse of to_json(). Throws an InputError that describes what is invalid.
[[nodiscard]] Event parse_event(const nlohmann::json& json);

}  // namespace evenkeel::stream
