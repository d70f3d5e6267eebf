#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "buffer/job_client.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Takes a line that says what a stream waits for. From any thread.
using WaitingNotes = std::function<void(const std::string& line)>;

/// Where such lines go from now on in this process: to its log, for example. Before that they go to standard
/// error. Call it before the first stream is made.
void send_waiting_notes_to(WaitingNotes notes);

/// Sends a line there.
void note_waiting(const std::string& line);

/// What a step lacks.
struct Lack {
  std::int64_t step = 0;
  std::int64_t needed = 0;  ///< groups
  std::int64_t ready = 0;
  std::int64_t open = 0;
  std::optional<double> since_last_sample;
  TicketsOut tickets;
  std::string full{};  ///< why the buffer refuses samples for now; empty if it does not
};

/// How long a rank has waited, and what for: it begins now.
class Patience {
 public:
  /// `most`: seconds, none is forever. `where`: the addresses of the buffers. Whether it `tells` what it
  /// waits for, as waiting notes.
  Patience(std::optional<double> most, std::string where, bool tells)
      : most_(most), where_(std::move(where)), tells_(tells) {}

  /// Throws IoError if there has been no sample for too long.
  void waits_for(const Lack& lack);
  /// Pauses before a buffer is tried again. In a handler of this error, which is thrown on instead if the
  /// buffer was tried for long enough.
  void lacks_buffer(const Error& error);
  void has_buffer() noexcept { lost_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;
  void tell(const std::function<std::string()>& words);

  std::optional<double> most_;
  std::string where_;
  bool tells_;
  Clock::time_point begun_ = Clock::now();
  Clock::duration note_after_ = first_note;
  std::optional<Clock::time_point> lost_;
  std::chrono::milliseconds pause_{};

  static constexpr std::chrono::seconds first_note{
      8};  // with the longest look at a buffer: within 10 seconds
};

}  // namespace evenkeel
