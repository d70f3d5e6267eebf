#pragma once

#include <mpi.h>

#include <boost/mpi/communicator.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel::testing_support {

/// Lets MPI ranks communicate through the interface of another backend, which transfers only bytes.
class RanksBehindMpi final : public NonMpiRanks {
 public:
  explicit RanksBehindMpi(const Communicator& comm, bool threads = true)
      : mpi_(comm.mpi()), threads_(threads) {}

  [[nodiscard]] int rank() const override { return mpi_.rank(); }
  [[nodiscard]] int size() const override { return mpi_.size(); }
  void broadcast(std::span<std::byte> bytes, int root) const override { mpi_.broadcast(bytes, root); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const override {
    mpi_.all_gather_bytes(mine, all);
  }
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const override {
    mpi_.all_gather_lists(mine, lists, all);
  }
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) const override { mpi_.all_reduce(values, op); }
  [[nodiscard]] Communicator duplicate() const override { return foreign(mpi_.duplicate()); }
  [[nodiscard]] Communicator split(int color, int key) const override {
    return foreign(mpi_.split(color, key));
  }
  [[nodiscard]] Communicator split_by_node() const override { return foreign(mpi_.split_by_node()); }
  [[nodiscard]] bool allows_threads() const override { return threads_; }
  void all_to_all(std::span<const std::byte> out, std::span<const std::int64_t> out_bytes,
                  std::span<std::byte> in, std::span<const std::int64_t> in_bytes) const override {
    to_.set(out_bytes);
    from_.set(in_bytes);
    MPI_Alltoallv(out.data(), to_.bytes.data(), to_.offsets.data(), MPI_BYTE, in.data(), from_.bytes.data(),
                  from_.offsets.data(), MPI_BYTE, mpi_);
  }

 private:
  /// The counts of a call, in preallocated memory.
  struct Counts {
    explicit Counts(int ranks) : bytes(static_cast<std::size_t>(ranks)), offsets(bytes.size()) {}
    void set(std::span<const std::int64_t> of_ranks) {
      int offset = 0;
      for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
        bytes[rank] = static_cast<int>(of_ranks[rank]);
        offsets[rank] = std::exchange(offset, offset + bytes[rank]);
      }
    }
    std::vector<int> bytes;
    std::vector<int> offsets;
  };

  [[nodiscard]] Communicator foreign(const Communicator& comm) const {
    if (!comm) return {};
    return Communicator(std::make_shared<RanksBehindMpi>(comm, threads_));
  }

  Communicator mpi_;
  bool threads_;
  mutable Counts to_{mpi_.size()};
  mutable Counts from_{mpi_.size()};
};

}  // namespace evenkeel::testing_support
