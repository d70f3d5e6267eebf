#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace evenkeel {

class Communicator;

/// Which of the values of all ranks.
enum class Extreme : std::uint8_t { least, largest };

/// The lists that ranks bring to a gathering call, in values of some bytes.
struct ListSizes {
  std::span<const int> sizes;    ///< of each rank's list
  std::span<const int> offsets;  ///< where it goes
  std::size_t bytes_each = 1;
};

/// What Evenkeel asks of whatever connects the processes of a job. Every call is collective over the group,
/// and all its ranks make the same calls in the same order; a group of its own (duplicate()) keeps the calls
/// of two threads apart. Calls take no memory that a rank may lack alone, but for those that make a group:
/// what those lack, all ranks throw. Other errors are MpiError, maybe on one rank alone.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  /// This process's number, 0 .. size() - 1.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Rank `root`'s bytes to all.
  virtual void broadcast(std::span<std::byte> bytes, int root) const = 0;
  /// As many bytes of each rank, in the order of ranks. Precondition: all.size() == size() * mine.size().
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const = 0;
  /// Lists of any sizes, equal on all ranks as `lists` says.
  virtual void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const = 0;
  /// The least or the largest of all ranks, value by value, in place.
  virtual void all_reduce(std::span<std::int64_t> values, Extreme which) const = 0;

  /// The same ranks, whose calls never meet those of this group.
  [[nodiscard]] virtual Communicator duplicate() const = 0;
  /// The ranks of one color, ordered by key and then by rank; nobody where the color is negative.
  [[nodiscard]] virtual Communicator split(int color, int key) const = 0;
  /// The ranks from `first` on, `count` of them. Collective over these alone, of which this one is.
  [[nodiscard]] virtual Communicator neighbours(int first, int count) const = 0;
  /// The ranks of this one's node, in order: those that may be able to share memory with it.
  [[nodiscard]] virtual Communicator split_by_node() const = 0;
  /// Whether several threads may make calls at once, each over a group of its own. The same on all ranks.
  [[nodiscard]] virtual bool allows_threads() const = 0;

 protected:
  RankGroup() = default;
  RankGroup(const RankGroup&) = default;
  RankGroup& operator=(const RankGroup&) = default;
};

/// A group that something else than MPI connects, such as a process group of torch.distributed. Everything
/// but dedicated data ranks works over one; plans and bytes are those that MPI would give.
class ForeignRanks : public RankGroup {
 public:
  /// Bytes from each rank to each rank, contiguous in the order of ranks. `out_bytes[r]` are for rank r,
  /// which expects as many of this one; those of a rank for itself are 0.
  virtual void all_to_all(std::span<const std::byte> out, std::span<const std::int64_t> out_bytes,
                          std::span<std::byte> in, std::span<const std::int64_t> in_bytes) const = 0;

  /// What is made by some ranks alone is not asked of everybody: this throws MeshError that says so. Trainers
  /// then make groups of micro-batches in their own way, with MicroBatch::context.
  [[nodiscard]] Communicator neighbours(int first, int count) const override;

  /// What Evenkeel keeps with the group; it goes with it. Not for users.
  struct Kept {
    using End = void (*)(void*);
    std::unique_ptr<void, End> object{nullptr, nullptr};
  };
  /// By the address of something that stands for its kind. Takes memory the first time.
  [[nodiscard]] Kept& kept(const void* kind) const { return kept_[kind]; }

 private:
  mutable std::map<const void*, Kept> kept_;
};

}  // namespace evenkeel
