#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "stream/key.hpp"

namespace evenkeel::stream {

/// What a JSON value says if it is an integer of 64 bits with its sign. None for all else: nlohmann::json
/// would make integers of `2.5` and `true`, and `1e67` is none that there is.
[[nodiscard]] inline std::optional<std::int64_t> integer_of(const nlohmann::json& value) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > most;
  if (!value.is_number_integer() || is_too_large) return std::nullopt;
  return value.get<std::int64_t>();
}

/// The same where there must be one. Throws InputError for `what` otherwise.
[[nodiscard]] inline std::int64_t require_integer(const nlohmann::json& value, const char* what) {
  if (const std::optional<std::int64_t> integer = integer_of(value)) return *integer;
  throw InputError(what, value.dump() + " is not a 64-bit integer");
}

/// Why a sample was not trained.
enum class DropReason : std::uint8_t {
  stale,      ///< older than max_staleness allows
  aborted,    ///< by its producer, as a sample or with its group
  too_small,  ///< what remains of its group is less than min_group
  late,       ///< its group had gone to a step without it, or was over
  filtered,   ///< by the job's filter: too long, or empty
};
inline constexpr std::size_t num_drop_reasons = 5;
/// "stale", "aborted", "too_small", "late", "filtered".
[[nodiscard]] std::string_view to_string(DropReason reason) noexcept;

/// A sample came that was not there before. Its arrival number is the number of this event.
struct SampleAccepted {
  SampleKey key;
  std::int64_t prompt = 0;    ///< tokens
  std::int64_t response = 0;  ///< tokens
  std::int64_t version = 0;   ///< the oldest of its tokens'
  std::int64_t bytes = 0;     ///< that its storage takes, which the capacity limits
  std::uint32_t content = 0;  ///< hash of what it holds but for versions: a repeated key must have the same
  std::string holder = {};    ///< of the ticket that this sample's group uses up, if its sender named one

  friend bool operator==(const SampleAccepted&, const SampleAccepted&) = default;
};

/// That many samples came again, and their senders were told so.
struct DuplicatesTold {
  std::int64_t count = 0;

  friend bool operator==(const DuplicatesTold&, const DuplicatesTold&) = default;
};

/// No more samples of the group are waited for.
struct GroupClosed {
  Uid uid;
  bool by_deadline = false;  ///< it was not closed by a producer

  friend bool operator==(const GroupClosed&, const GroupClosed&) = default;
};

/// One sample will not come, or is not to be trained; or, without an index, the whole group. A group that is
/// in a step already stays there, unless the step itself is meant: then the whole group leaves it.
struct GroupAborted {
  Uid uid;
  std::optional<std::int64_t> index = std::nullopt;
  std::string reason = {};
  bool in_step = false;  ///< it leaves the step that has it, which no job has built

  friend bool operator==(const GroupAborted&, const GroupAborted&) = default;
};

/// The policy's version is now this one. A lower version than before, which a resumed job publishes, changes
/// nothing but that some version was published.
struct VersionPublished {
  std::int64_t version = 0;

  friend bool operator==(const VersionPublished&, const VersionPublished&) = default;
};

/// Samples leave without being trained; what they were is told by their names in the log.
struct SamplesDropped {
  std::vector<std::int64_t> arrivals;
  DropReason reason = DropReason::stale;

  friend bool operator==(const SamplesDropped&, const SamplesDropped&) = default;
};

/// New groups may be started. The first sample of a new group uses one ticket up: the oldest of the sample's
/// holder, or the oldest of all if that holder has none.
struct TicketsGranted {
  std::int64_t groups = 0;
  std::int64_t granted = 0;   ///< when, in milliseconds since 1970
  std::int64_t deadline = 0;  ///< likewise: tickets that are not used by then expire
  std::string holder = {};    ///< who has them; empty if the request did not say
  std::string request = {};   ///< identity of the request, which a retry repeats; empty: it has none

  friend bool operator==(const TicketsGranted&, const TicketsGranted&) = default;
};

/// Tickets are not waited for any longer: those with a deadline up to `time`, whose holders are taken for
/// dead, and those of versions below `version`, whose groups would be stale.
struct TicketsExpired {
  std::int64_t time = -1;
  std::int64_t version = 0;

  friend bool operator==(const TicketsExpired&, const TicketsExpired&) = default;
};

/// How many groups that were ready later than this one are in earlier steps than it.
struct PassedOver {
  Uid uid;
  std::int64_t count = 0;

  friend bool operator==(const PassedOver&, const PassedOver&) = default;
};

/// A group in a step. The number of its samples tells whether it changed since the step was decided.
struct FormedGroup {
  Uid uid;
  std::int64_t samples = 0;

  friend bool operator==(const FormedGroup&, const FormedGroup&) = default;
};

/// A step was formed: written down before it is handed out, so that it can be handed out again.
struct StepFormed {
  std::int64_t step = 0;
  std::int64_t version = 0;
  std::vector<FormedGroup> groups;   ///< in the order in which the step has them
  std::vector<std::int64_t> masked;  ///< arrivals of its stale samples, with OnStale::mask
  std::vector<PassedOver> passed;    ///< of the groups that are ready and still wait, those above 0

  friend bool operator==(const StepFormed&, const StepFormed&) = default;
};

/// The job's state is saved after this step, so no earlier one, nor this, is asked for again.
struct StepTrained {
  std::int64_t step = 0;
  bool skips = false;  ///< it may be a later step than any that was formed: those between are given up

  friend bool operator==(const StepTrained&, const StepTrained&) = default;
};

/// No more will come. Groups that are not complete are closed.
struct StreamEnded {
  friend bool operator==(const StreamEnded&, const StreamEnded&) = default;
};

/// What happened, with its number: the order in which a buffer acknowledges.
struct Event {
  using What =
      std::variant<SampleAccepted, DuplicatesTold, GroupClosed, GroupAborted, VersionPublished,
                   SamplesDropped, TicketsGranted, TicketsExpired, StepFormed, StepTrained, StreamEnded>;
  std::int64_t number = 0;
  What what;

  friend bool operator==(const Event&, const Event&) = default;
};

/// {"number": 12, "event": "closed", "uid": "q1", ...}: for people, and as MessagePack or CBOR for stores.
[[nodiscard]] nlohmann::json to_json(const Event& event);
/// The inverse. Throws InputError that says what is wrong with it.
[[nodiscard]] Event event_of(const nlohmann::json& json);

}  // namespace evenkeel::stream
