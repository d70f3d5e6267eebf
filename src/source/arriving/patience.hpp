#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "buffer/job_client.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Callback for one line of text that states what a stream is waiting for, or reports another event of a
/// buffer. May be called from any thread.
using WaitingNotes = std::function<void(const std::string& line)>;

/// Sets this process's callback for waiting notes, for example a callback that writes to the process's log.
/// By default, the notes are written to standard error. Call this before creating the first stream.
void set_waiting_notes_destination(WaitingNotes notes);

/// Passes a line to the callback that set_waiting_notes_destination() set; by default, writes it to standard
/// error.
void send_waiting_note(const std::string& line);

/// Data about a step that cannot be formed yet, for messages.
struct UnformedStep {
  std::int64_t step = 0;
  std::int64_t needed = 0;                          ///< number of groups that the step needs; 0 if unknown
  std::int64_t ready = 0;                           ///< number of groups that are ready to be put into a step
  std::int64_t open = 0;                            ///< number of groups that still lack samples or fields
  std::optional<double> seconds_since_last_sample;  ///< nullopt if none has arrived
  OutstandingTickets tickets;
  std::string full{};  ///< why the buffer refuses samples; empty if it accepts them
  std::map<std::string, std::int64_t> missing_fields{};  ///< number of samples that lack each late field
};

/// Enforces the time limit of one wait for a buffer, which begins at construction, and can report what the
/// rank is waiting for. Does not poll the buffer itself: the caller polls, and calls these functions between
/// polls.
class Patience {
 public:
  /// `most` is the time limit in seconds; unlimited if unset. `where` is the address of the buffer. If
  /// `sends_notes` is true, this object sends notes about what the rank is waiting for (send_waiting_note()).
  Patience(std::optional<double> most, std::string where, bool sends_notes)
      : most_(most), where_(std::move(where)), sends_notes_(sends_notes) {}

  /// Call this after a poll that reached the buffer but found too few samples. Throws IoError if no sample
  /// has arrived for longer than `most` during this wait.
  void on_unformed(const UnformedStep& lack);
  /// Call this in the handler of `error`, after an attempt that failed because the buffer could not be
  /// reached or is full. Sleeps before the next attempt, or rethrows the error if all attempts have failed
  /// for longer than `most`.
  void on_unreachable(const Error& error);
  void on_reached() noexcept { failing_since_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;
  void send_note_if_due(const std::function<std::string()>& words);

  std::optional<double> most_;
  std::string where_;
  bool sends_notes_;
  Clock::time_point start_time_ = Clock::now();
  Clock::duration note_after_ = first_note;
  std::optional<Clock::time_point> failing_since_;
  std::chrono::milliseconds pause_{};

  // Minimum time before the first note. With the duration of one poll added, the first note is sent after at
  // most 10 seconds.
  static constexpr std::chrono::seconds first_note{8};
};

}  // namespace evenkeel
