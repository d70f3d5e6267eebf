#pragma once

#include <mpi.h>
#include <boost/mpi/communicator.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace evenkeel {

class Communicator;

/// The result of a reduction: the minimum or the maximum over all ranks.
enum class ReduceOp : std::uint8_t { min, max };

/// The sizes of the lists that ranks contribute to a gather call, and the number of bytes per value.
struct ListSizes {
  std::span<const int> sizes;    ///< size of each rank's list
  std::span<const int> offsets;  ///< offset of each rank's list in the result
  std::size_t bytes_each = 1;
};

/// Interface to the connection between the processes of a job. Every call but rank() and size() is collective
/// over the group, and all its ranks make the same calls in the same order. Threads that make calls at the
/// same time need separate groups (duplicate()). Except for calls that make a group, calls do not allocate
/// memory, so they do not run out of memory on one rank alone. If data exceeds what MPI can count, all ranks
/// throw LimitError. Other errors are MpiError, possibly on one rank alone.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  /// Returns this process's number, 0 .. size() - 1.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Sends the bytes of rank `root` to all ranks.
  virtual void broadcast(std::span<std::byte> bytes, int root) const = 0;
  /// Gathers the same number of bytes from each rank, in the order of ranks. Precondition: all.size() ==
  /// size() * mine.size().
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const = 0;
  /// Gathers lists of any sizes; `lists` is equal on all ranks.
  virtual void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const = 0;
  /// Replaces each element with its minimum or maximum over all ranks.
  virtual void all_reduce(std::span<std::int64_t> values, ReduceOp op) const = 0;

  /// Returns a group of the same ranks whose calls never interfere with those of this group.
  [[nodiscard]] virtual Communicator duplicate() const = 0;
  /// Returns the ranks with the same color, ordered by key and then by rank; empty if the color is negative.
  [[nodiscard]] virtual Communicator split(int color, int key) const = 0;
  /// Returns the ranks on this rank's node, in order; they may be able to share memory with it.
  [[nodiscard]] virtual Communicator split_by_node() const = 0;
  /// Returns whether several threads may make calls at the same time, each with its own group. The same on
  /// all ranks.
  [[nodiscard]] virtual bool allows_threads() const = 0;

 protected:
  RankGroup() = default;
  RankGroup(const RankGroup&) = default;
  RankGroup& operator=(const RankGroup&) = default;
};

/// A group that is not connected by MPI, such as a process group of torch.distributed. Plans and bytes are
/// the same as with MPI.
class NonMpiRanks : public RankGroup {
 public:
  /// Sends bytes from each rank to each rank, contiguous in the order of ranks. `out_bytes[r]` is the number
  /// for rank r, which must expect the same number from this rank; a rank sends 0 bytes to itself.
  virtual void all_to_all(std::span<const std::byte> out, std::span<const std::int64_t> out_bytes,
                          std::span<std::byte> in, std::span<const std::int64_t> in_bytes) const = 0;

  /// Data that Evenkeel keeps for the lifetime of the group. Not for users.
  struct Attachment {
    using End = void (*)(void*);
    std::unique_ptr<void, End> object{nullptr, nullptr};
  };
  /// Returns the data of a kind, which is identified by an address. Allocates memory the first time.
  [[nodiscard]] Attachment& attachment(const void* kind) const { return kept_[kind]; }

 private:
  mutable std::map<const void*, Attachment> kept_;
};

/// The ranks of an MPI communicator.
class MpiRanks final : public RankGroup {
 public:
  /// Makes a group without ranks. Boost's default, a handle of all processes, would allocate memory.
  MpiRanks() : comm_(MPI_COMM_NULL, boost::mpi::comm_attach) {}
  explicit MpiRanks(const boost::mpi::communicator& comm) : comm_(comm) {}

  [[nodiscard]] const boost::mpi::communicator& comm() const noexcept { return comm_; }

  [[nodiscard]] int rank() const override { return comm_.rank(); }
  [[nodiscard]] int size() const override { return comm_.size(); }
  void broadcast(std::span<std::byte> bytes, int root) const override;
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const override;
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const override;
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) const override;
  [[nodiscard]] Communicator duplicate() const override;
  [[nodiscard]] Communicator split(int color, int key) const override;
  [[nodiscard]] Communicator split_by_node() const override;
  [[nodiscard]] bool allows_threads() const override;

 private:
  boost::mpi::communicator comm_;
};

/// A handle to ranks that work together, or to no ranks, independent of what connects them. It converts from
/// and to MPI's communicators; other connections use a NonMpiRanks. Copies refer to the same ranks; the last
/// copy frees Evenkeel's own communicator. Converting from MPI and copying do not allocate.
class Communicator {
 public:
  /// Makes a handle to no ranks.
  Communicator() = default;
  Communicator(const boost::mpi::communicator& comm) : mpi_(comm) {}
  explicit Communicator(std::shared_ptr<const NonMpiRanks> ranks) noexcept : foreign_(std::move(ranks)) {}

  /// Returns whether there are ranks.
  [[nodiscard]] explicit operator bool() const {
    return foreign_ || (static_cast<bool>(mpi()) && static_cast<MPI_Comm>(mpi()) != MPI_COMM_NULL);
  }
  [[nodiscard]] int rank() const { return group().rank(); }
  [[nodiscard]] int size() const { return group().size(); }

  /// This function and those below without a description call the functions of RankGroup.
  void broadcast(std::span<std::byte> bytes, int root) const { group().broadcast(bytes, root); }
  /// Broadcasts one value as raw bytes.
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void broadcast(T& value, int root) const {
    group().broadcast(std::as_writable_bytes(std::span(&value, 1)), root);
  }
  /// Gathers one value from each rank as raw bytes. Precondition: all.size() == size().
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void all_gather(const T& mine, std::span<T> all) const {
    group().all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(all));
  }
  void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all) const {
    group().all_gather(mine, all);
  }
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const {
    group().all_gather_lists(mine, lists, all);
  }
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) const { group().all_reduce(values, op); }
  /// Returns the minimum or the maximum of one value over all ranks.
  [[nodiscard]] std::int64_t all_reduce(std::int64_t mine, ReduceOp op) const {
    group().all_reduce(std::span(&mine, 1), op);
    return mine;
  }
  [[nodiscard]] Communicator duplicate() const { return group().duplicate(); }
  [[nodiscard]] Communicator split(int color, int key) const { return group().split(color, key); }
  [[nodiscard]] Communicator split_by_node() const { return group().split_by_node(); }
  [[nodiscard]] bool allows_threads() const { return group().allows_threads(); }
  /// Waits until all ranks have called barrier().
  void barrier() const { static_cast<void>(all_reduce(0, ReduceOp::min)); }

  /// Returns the group of a connection other than MPI; nullptr for MPI.
  [[nodiscard]] const NonMpiRanks* non_mpi_ranks() const noexcept { return foreign_.get(); }
  /// Returns MPI's communicator; MPI_COMM_NULL for other connections.
  [[nodiscard]] const boost::mpi::communicator& mpi() const noexcept { return mpi_.comm(); }
  operator const boost::mpi::communicator&() const noexcept { return mpi(); }
  operator MPI_Comm() const { return mpi(); }

 private:
  [[nodiscard]] const RankGroup& group() const noexcept {
    return foreign_ ? static_cast<const RankGroup&>(*foreign_) : mpi_;
  }

  MpiRanks mpi_;  // stored in place, which avoids an allocation
  std::shared_ptr<const NonMpiRanks> foreign_;
};

}  // namespace evenkeel
