#pragma once

#include <boost/mpi/communicator.hpp>
#include <chrono>

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

}  // namespace evenkeel
