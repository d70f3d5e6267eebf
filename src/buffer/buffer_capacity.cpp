#include <fmt/format.h>

#include <limits>
#include <string>
#include <variant>

#include "base/text_layout.hpp"
#include "buffer/buffer.hpp"
#include "buffer/ledger_notes.hpp"

// Accounting of a buffer's capacity, and errors for requests that do not fit.
namespace evenkeel {
namespace {

/// Returns the maximum size in bytes of the event that records this sample.
std::int64_t max_event_bytes(const stream::SampleAccepted& accepted, const std::string& holder) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::uint32_t hash = std::numeric_limits<std::uint32_t>::max();
  static const std::int64_t of_numbers = std::ssize(
      serialize_event({most, stream::SampleAccepted{{most, most}, most, most, most, most, hash, "holder"}}));
  const auto* const text = std::get_if<std::string>(&accepted.key.uid);
  return of_numbers + (text == nullptr ? 0 : std::ssize(*text)) + std::ssize(holder);
}

}  // namespace

std::int64_t Buffer::cost_of(const ReceivedSample& sample, const std::string& holder) const {
  return store_->cost_of(std::ssize(sample.body)) +
         store_->cost_of_event(max_event_bytes(sample.accepted, holder));
}

LimitError Buffer::make_too_large_error(std::int64_t bytes) const {
  if (bytes <= store_->capacity()) {
    return {"body",
            "needs " + std::to_string(bytes) + " bytes, but " + std::to_string(store_->bytes_in_use()) +
                " of the buffer's capacity of " + std::to_string(store_->capacity()) +
                " bytes are in use although it has no samples: they record which samples it has received",
            "Give the buffer more room (--capacity, or stream.capacity), or start a new one"};
  }
  return {"body",
          "needs " + std::to_string(bytes) + " bytes, which do not fit into the buffer's capacity of " +
              std::to_string(store_->capacity()) + " even when it has no samples",
          "Send fewer samples in a request, or give the buffer more room (--capacity, or stream.capacity)"};
}

/// Returns the error for a full buffer, and records its text for WaitingGroups::full. The error states what
/// makes room: training or, if the stored groups are not enough for a step, closing or aborting incomplete
/// groups.
FullError Buffer::make_full_error() {
  const stream::Status& status = stored_;
  const bool can_form = status.formed_groups > 0 || status.ready_groups >= groups_per_step_.value_or(1);
  std::string message =
      fmt::format("is full: {} bytes of {} are in use", store_->bytes_in_use(), store_->capacity());
  if (!can_form) {
    message += fmt::format(
        "; a step needs {}{}; {} {} complete and {} {} not", groups_per_step_ ? "" : "at least ",
        format_plain_count(groups_per_step_.value_or(1), "group"), status.ready_groups,
        status.ready_groups == 1 ? "is" : "are", status.open_groups, status.open_groups == 1 ? "is" : "are");
  }
  const char* const hint =
      can_form ? "Wait until samples are trained, then send the same request again"
      : status.ready_groups > 0
          ? "Close or abort groups that stay incomplete, give the buffer more room (--capacity, or "
            "stream.capacity), or lower batch.global_batch"
          : "Close or abort groups that stay incomplete, or give the buffer more room (--capacity, or "
            "stream.capacity)";
  full_reason_ = message + ". " + hint;
  return FullError("buffer", message, hint);
}

}  // namespace evenkeel
