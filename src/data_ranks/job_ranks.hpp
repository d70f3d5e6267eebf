#pragma once

#include <boost/mpi/communicator.hpp>

#include "evenkeel/config/config.hpp"

namespace evenkeel {

/// Who does what among the ranks that a job was started on: some may be data ranks, of this program or of
/// another one (`evenkeel serve`), and have no part in the job but to read for it.
class JobRanks {
 public:
  /// Collective over `world`, which must outlive it. Throws as meet() does.
  explicit JobRanks(const boost::mpi::communicator& world);

  /// All ranks: what services are made over.
  [[nodiscard]] const boost::mpi::communicator& world() const noexcept { return world_; }
  /// Those that do the job: at first all that run this program, after settle() those that train.
  [[nodiscard]] const boost::mpi::communicator& own() const noexcept { return own_; }

  /// Whether all ranks are those of `evenkeel run` and `evenkeel serve`, whose watchdogs meet next.
  [[nodiscard]] bool all_watch() const noexcept { return all_watch_; }

  /// Collective over own(), with its ranks' configuration. Returns whether this rank is one of the data ranks
  /// that the configuration sets aside. Throws MeshError when too few ranks are left.
  [[nodiscard]] bool settle(const Config& config);

  /// Whether others wait for this job's ranks in a way that only an abort ends.
  [[nodiscard]] bool must_abort() const noexcept;

 private:
  void require_known_number(int configured) const;

  const boost::mpi::communicator& world_;
  boost::mpi::communicator own_;
  int data_ranks_ = 0;
  bool all_watch_ = false;
};

}  // namespace evenkeel
