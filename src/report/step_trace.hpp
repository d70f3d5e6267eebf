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

/// What one rank did for one pass over a step, in seconds of the common clock. Copied byte for byte.
struct RankTrace {
  /// Bytes that went to a rank.
  struct Sent {
    std::int64_t rank = -1;  ///< none
    std::int64_t bytes = 0;
  };
  static constexpr std::size_t most_sent = 16;

  double made_at = 0;                  ///< when the step was ready
  PhaseTimes phases{};                 ///< that it took, one after the other
  std::int64_t made_ahead = 0;         ///< not 0: by a thread of its own, beside the trainer
  double asked_at = 0;                 ///< when the trainer asked for it,
  double handed_at = 0;                ///< got it,
  double used_at = 0;                  ///< and had used it
  std::array<Sent, most_sent> sent{};  ///< to the ranks that got most
  std::int64_t sent_to = 0;            ///< to how many ranks
  std::int64_t sent_bytes = 0;         ///< to all ranks but itself
};

/// A trace in Chrome's event format, which Perfetto opens: one process per rank, with a track for making
/// steps and a track for the trainer. Each step is written when it is over, so memory does not grow, and a
/// trace that was cut short still opens. Local.
class TraceFile {
 public:
  TraceFile(const std::filesystem::path& path, const Grid& grid);

  /// `ranks` has one a rank.
  void add(std::int64_t step, const std::string& profile, std::span<const RankTrace> ranks);
  /// Call once, last.
  void close();

 private:
  AppendedFile file_;
  std::int64_t flows_ = 0;
};

/// Seconds of one clock on all ranks: rank 0's, from when it was made. Others know how far theirs is from it,
/// as exactly as a message travels there and back; clocks that drift apart later are not followed.
class CommonClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Collective: a few messages between rank 0 and each other rank, one after the other.
  explicit CommonClock(const boost::mpi::communicator& world);

  [[nodiscard]] double seconds_at(Time time) const {
    return std::chrono::duration<double>(time.time_since_epoch()).count() - start_;
  }
  [[nodiscard]] double now() const { return seconds_at(std::chrono::steady_clock::now()); }

 private:
  double start_ = 0;  // of rank 0's clock, as this rank's shows it
};

/// When this rank's trainer asked for a pass and got it.
struct TrainerTimes {
  CommonClock::Time asked, handed;
  bool made_ahead = false;  ///< by a thread of its own
};

/// Collective over `world`: what each rank did for a pass that the trainer has used by now, on rank 0;
/// nothing on others. Throws LimitError on every rank when rank 0 lacks memory: some hundred bytes a rank.
[[nodiscard]] std::vector<RankTrace> gather_trace(const boost::mpi::communicator& world,
                                                  const CommonClock& clock, const TrainerTimes& trainer,
                                                  const Step& step);

}  // namespace evenkeel
