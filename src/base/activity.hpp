#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace evenkeel {

/// What this process does, told by its threads as they go and read by a watchdog at any time. Telling costs a
/// few stores: no lock, no memory, no system call but when a thread tells for the first time. All texts are
/// literals.

/// Whom a thread waits for.
enum class WaitFor : std::uint8_t {
  nobody,    ///< it works, or runs the program's own code
  ranks,     ///< other ranks, without whom it cannot go on
  end,       ///< other ranks, which must end, too; whoever waits for this one waits in vain
  thread,    ///< another thread of this process
  trainer,   ///< to be asked for more: no trouble, however long it takes
  producers  ///< samples that other processes make: no trouble for it, nor for ranks that wait for it
};

inline constexpr std::int64_t no_step = -1;

/// A part of the calling thread's work, until the object goes; then it is again what it was before. One
/// without a step is part of the step around it.
class Phase {
 public:
  explicit Phase(const char* name, std::int64_t step = no_step) noexcept;
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase();

  /// The part is over, and the next one begins.
  static void becomes(const char* name) noexcept;

 private:
  const char* outer_;
  std::int64_t outer_step_;
};

/// The calling thread waits, until the object goes.
class Waiting {
 public:
  explicit Waiting(const char* in, WaitFor whom = WaitFor::ranks) noexcept;
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();

 private:
  const char* outer_;
  WaitFor outer_whom_;
};

/// This process has begun to end, in this phase of the calling thread, and waits for other ranks to end: no
/// processor time of it is progress any more.
void leave_for_good(const char* phase) noexcept;
[[nodiscard]] bool has_left_for_good() noexcept;

/// The calling thread has got on with work that may leave no other trace.
void tell_progress() noexcept;

/// One thread, as it was at one moment.
struct ThreadActivity {
  const char* phase = nullptr;  ///< null where no thread stands here
  std::int64_t step = no_step;
  const char* wait = nullptr;
  WaitFor whom = WaitFor::nobody;
  std::uint64_t moves = 0;  ///< grows whenever the thread tells anything
  std::int32_t thread = 0;  ///< the system's number of it
};

/// Threads that can tell at once: a trainer's, those that make steps ahead, a few more. What others do is not
/// seen.
inline constexpr std::size_t most_told_threads = 6;

[[nodiscard]] std::array<ThreadActivity, most_told_threads> activities() noexcept;

}  // namespace evenkeel
