#pragma once

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/operations.hpp>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/measurement.hpp"

namespace evenkeel::bench {

/// Cases that all ranks run together, in turn: the slowest rank's seconds for every case and round.
class Race {
 public:
  /// `world` must outlive it.
  explicit Race(const boost::mpi::communicator& world) : world_(world) {}

  /// `seconds` runs the case once and returns the seconds that it took on this rank.
  void add(std::string name, std::function<double()> seconds) {
    samples_.push_back({std::move(name), {}});
    runs_.push_back(std::move(seconds));
  }

  /// memcpy on all ranks, until the last one is done. If ranks share cores, some copy before the others
  /// begin, so the time of each rank alone would be meaningless. `source` and `target` must outlive the race.
  void add_memcpy(std::span<const std::byte> source, std::span<std::byte> target) {
    add("memcpy on all ranks", [this, source, target] {
      return seconds_of([&] {
        std::memcpy(target.data(), source.data(), source.size());
        world_.barrier();
      });
    });
  }

  /// Collective: `rounds` rounds after one that is not counted; all ranks begin each case together.
  [[nodiscard]] std::vector<Samples> run(int rounds) {
    for (int round = -1; round < rounds; ++round) {
      for (std::size_t c = 0; c < runs_.size(); ++c) {
        world_.barrier();
        const double mine = runs_[c]();
        const double slowest = boost::mpi::all_reduce(world_, mine, boost::mpi::maximum<double>());
        if (round >= 0) samples_[c].seconds.push_back(slowest);
      }
    }
    return samples_;
  }

 private:
  const boost::mpi::communicator& world_;
  std::vector<Samples> samples_;
  std::vector<std::function<double()>> runs_;
};

}  // namespace evenkeel::bench
