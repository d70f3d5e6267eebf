#pragma once

#include <boost/mpi/communicator.hpp>
#include <chrono>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "report/trace_file.hpp"

namespace evenkeel {

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
