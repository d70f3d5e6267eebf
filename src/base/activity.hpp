#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace evenkeel {

/// Activity of the threads of this process. Each thread reports its own activity, and a watchdog may read the
/// reports at any time. A report takes a few stores. It does not lock, allocate or make system calls, except
/// for a thread's first report. Strings must be literals, since only their addresses are stored.

/// The party that a thread is waiting for.
enum class WaitFor : std::uint8_t {
  nobody,   ///< the thread is not waiting: it is running code of Evenkeel or of the application
  ranks,    ///< other ranks, which the thread needs to continue
  end,      ///< other ranks to exit, too; a rank that waits for this one in another call will wait forever
  thread,   ///< another thread of this process
  trainer,  ///< the trainer's next request, which may take any amount of time
  /// Samples from other processes; neither this rank nor the ranks that wait for it are to blame for a long
  /// wait.
  producers
};

inline constexpr std::int64_t no_step = -1;

/// Marks a phase of the calling thread's work until this object is destroyed, which restores the previous
/// phase. A Phase without a step has the step of the enclosing Phase.
class Phase {
 public:
  explicit Phase(const char* name, std::int64_t step = no_step) noexcept;
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase();

  /// Ends the calling thread's current phase, and begins the phase `name`. Keeps the step.
  static void switch_to(const char* name) noexcept;

 private:
  const char* outer_;
  std::int64_t outer_step_;
};

/// Marks the calling thread as waiting for `whom` until the object is destroyed. `in` names the call, such as
/// "MPI_Bcast".
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

/// Records that this process has begun to exit: sets the phase of the calling thread, and marks the thread as
/// waiting for other ranks to exit. From then on, the process's processor time does not count as progress.
void begin_exit(const char* phase) noexcept;
[[nodiscard]] bool is_exiting() noexcept;

/// Records progress of the calling thread. Call this in work whose progress may not be detected otherwise.
void record_progress() noexcept;

/// Snapshot of the activity of one thread.
struct ThreadActivity {
  const char* phase = nullptr;  ///< null if no thread reports in this element of activities()
  std::int64_t step = no_step;
  const char* wait = nullptr;
  WaitFor whom = WaitFor::nobody;
  std::uint64_t num_reports =
      0;                    ///< number of reports in this element so far, including those of ended threads
  std::int32_t thread = 0;  ///< the operating system's thread id
};

/// Maximum number of threads that can report at the same time: the trainer's thread, the threads that make
/// steps ahead, and a few more. Reports of further threads are discarded.
inline constexpr std::size_t max_reported_threads = 6;

[[nodiscard]] std::array<ThreadActivity, max_reported_threads> activities() noexcept;

}  // namespace evenkeel
