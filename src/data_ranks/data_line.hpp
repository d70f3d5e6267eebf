#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data_ranks/hosted/held_passes.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"
#include "mesh/fail_together.hpp"
#include "service/state/resume_checks.hpp"
#include "service/step_record.hpp"

namespace evenkeel {

/// What a rank does in a job with data ranks.
enum class Part : std::uint8_t {
  trains,
  serves,     ///< it is a data rank
  undecided,  ///< its configuration will say
};

/// What ranks told each other.
struct FirstMeeting {
  std::optional<int> data_ranks;  ///< that anybody's configuration names; nothing where nobody knows one
  bool are_all_decided = true;
  bool all_watch = true;  ///< each rank has a watchdog, which is to meet the others' next
};

/// Collective over `world`: ranks tell each other what they do, before any does anything else there, and meet
/// again until all are decided. `mine` is the number of data ranks that this rank's configuration names, if
/// it knows that already. Throws ConfigError on every rank when ranks name different numbers, and unless
/// exactly the first so many serve.
FirstMeeting meet(const Communicator& world, Part part, std::optional<int> mine, bool watches = false);

/// In the place of meet(), for a rank that has an error instead of a configuration: throws it here, and on
/// all ranks that meet.
[[noreturn]] void fail_to_meet(const Communicator& world, const ErrorReport& error);

/// What trainers call data ranks to.
enum class DataCallKind : std::int32_t {
  open_stream,
  describe_stream,
  tell_delay,  ///< of a stream's outliers
  tell_arrivals,
  stop_waiting,  ///< for samples of a stream
  publish_version,
  steps_trained,  ///< of a stream: those before `number`
  make_service,
  first_pass,
  later_pass,
  collect,
  collect_on,
  end_service,
  make_prefetcher,
  make_step,  ///< of a prefetcher without a thread
  end_prefetcher,
  finish,  ///< no more calls will come
};

/// A collective call of the trainers, in which data ranks take part.
struct DataCall {
  DataCallKind kind = DataCallKind::finish;
  std::uint64_t service = 0;   ///< the number of the service or prefetcher that is called
  std::int64_t number = 0;     ///< steps of a prefetcher, the rank to collect on, a version
  std::uint64_t held = 0;      ///< trainers hold no pass of this service before this one
  std::uint64_t released = 0;  ///< a service that has ended, of which trainers hold no pass any more
  StepOrigin step;             ///< that is passed over or collected
  bool accepts_changes = false;
  std::string profile;
  std::vector<std::string> names;    ///< profiles of a stream, fields that are added
  std::optional<std::string> state;  ///< to go on from
};

/// The way from the trainers of this process's job to its data ranks. There is one a process, laid when the
/// first collective object is made over a communicator with data ranks.
class DataLine {
 public:
  /// Collective over `world` for trainers, the first time also for its data ranks, which are in
  /// DataLine::lay(). Returns the ranks to work over: `world` where the configuration has no data ranks, else
  /// the trainers and then the data ranks. Throws on every rank as meet() does; InputError for another
  /// communicator than that of the first time.
  static Communicator ranks(const Communicator& world, const Config& config);
  /// The same, on data ranks. Where all ranks have a watchdog, `watch` is called, collective over `world`.
  static Communicator lay(const Communicator& world, const Config& config,
                          const std::function<void()>& watch = {});

  /// The last call of trainers, after which data ranks are free, if that was not made before. Called on all
  /// of them, and by itself when MPI_Finalize begins; on data ranks once they have heard it.
  static void take_up();

  /// Whether there are data ranks that can be called.
  [[nodiscard]] static bool is_laid() noexcept;
  /// The data ranks among themselves. Precondition: this process is one of them.
  [[nodiscard]] static const Communicator& data_ranks() noexcept;
  /// The rank of the first of them among all. Precondition: is_laid().
  [[nodiscard]] static int first_data_rank() noexcept;

  /// Called on all trainers before they do together what `call` says, where the mesh has data ranks: the
  /// first of them sends it. What fails here goes to `work`; the data ranks take part all the same. Without
  /// effect on data ranks. Throws InputError on every trainer when the data ranks have been dismissed.
  static void tell(const DataCall& call, GuardedWork& work);
  /// The same for a new service or prefetcher, which may go on from a state.
  static void tell_to_make(DataCall call, const Resumption* from, GuardedWork& work);
  /// The same for one that ends. Data ranks keep what is still held of it until a later call says that
  /// trainers have let go of that, too.
  static void tell_of_end(const DataCall& call, HeldPasses held, GuardedWork& work);

  /// Called on all trainers when data ranks have opened a stream for them: the number of this one. Data ranks
  /// know the newest one only. Precondition: there are data ranks.
  [[nodiscard]] static std::uint64_t count_stream() noexcept;
  [[nodiscard]] static bool is_newest_stream(std::uint64_t number) noexcept;

  /// Waits for the next call. What fails on this rank goes to `work`, and the call's texts may then be
  /// missing. Sleeps while there is none, so that the core is free for what is made ahead; `meanwhile` is
  /// called now and then, and ends the wait by what it throws.
  [[nodiscard]] static DataCall listen(GuardedWork& work, const std::function<void()>& meanwhile);
};

/// On a data rank: does what trainers have asked for. What all ranks throw together is the trainers' to
/// handle; an MpiError that this rank has alone is not.
template <typename Work>
void leave_errors_to_trainers(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    if (is_alone(error.report())) throw;
  }
}

}  // namespace evenkeel
