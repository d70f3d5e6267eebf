#pragma once

#include <array>
#include <boost/mpi/communicator.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/service/data_service.hpp"
#include "io/files/output_file.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// Trace of one rank in one pass over a step, in seconds of the common clock. Sent as raw bytes, so it must
/// be trivially copyable.
struct RankTrace {
  /// Bytes sent to one rank.
  struct Sent {
    std::int64_t rank = -1;  ///< the receiving rank; -1 for an unused entry
    std::int64_t bytes = 0;
  };
  static constexpr std::size_t max_sent = 16;

  double made_at = 0;           ///< time at which the step was ready
  PhaseTimes phases{};          ///< durations of the consecutive phases, the last of which ends at `made_at`
  std::int64_t made_ahead = 0;  ///< 1 if a separate thread made the step ahead of the trainer, otherwise 0
  double asked_at = 0;          ///< time at which the trainer requested the step
  double handed_at = 0;         ///< time at which the trainer got the step
  double used_at = 0;           ///< time at which the trainer finished using the step
  std::array<Sent, max_sent> sent{};  ///< the receivers of the most bytes, in descending order of bytes
  std::int64_t sent_to = 0;           ///< number of receivers, not counting this rank
  std::int64_t sent_bytes = 0;        ///< total number of bytes sent to other ranks
};

/// A trace in Chrome's event format, which Perfetto opens: one process per rank, with a track for steps made
/// ahead and a track for the trainer, which also shows the other steps being made. Each step is written when
/// it ends, so memory does not grow, and a truncated trace can still be opened. Local.
class TraceFile {
 public:
  TraceFile(const std::filesystem::path& path, const Grid& grid);

  /// Appends a step. `ranks` has one element per rank.
  void add(std::int64_t step, const std::string& profile, std::span<const RankTrace> ranks);
  /// Closes the file. Call this only once, at the end.
  void close();

 private:
  AppendOnlyFile file_;
  std::int64_t flows_ = 0;
};

/// A clock shared by all ranks: seconds since construction, according to rank 0's clock. Each rank measures
/// the offset of its own clock, with the accuracy of a message's round-trip time. Later clock drift is not
/// corrected.
class CommonClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Collective: exchanges a few messages between rank 0 and every other rank, one rank after another.
  explicit CommonClock(const boost::mpi::communicator& world);

  [[nodiscard]] double seconds_at(Time time) const {
    return std::chrono::duration<double>(time.time_since_epoch()).count() - start_;
  }
  [[nodiscard]] double now() const { return seconds_at(std::chrono::steady_clock::now()); }

 private:
  double start_ = 0;  // start of the common clock, on this rank's clock
};

/// Times at which this rank's trainer requested a pass and got it.
struct TrainerTimes {
  CommonClock::Time asked, handed;
  bool made_ahead = false;  ///< whether a separate thread made the step
};

/// Collective over `world`: returns, on rank 0, each rank's trace of a pass that the trainer has finished
/// using; an empty list on other ranks. Throws LimitError on every rank if rank 0 runs out of memory. Rank 0
/// needs a few hundred bytes per rank.
[[nodiscard]] std::vector<RankTrace> gather_trace(const boost::mpi::communicator& world,
                                                  const CommonClock& clock, const TrainerTimes& trainer,
                                                  const Step& step);

}  // namespace evenkeel
