#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "transport/shared/shared_heap.hpp"

namespace evenkeel {

/// A memory file of another process, mapped for reading.
class MappedFile {
 public:
  /// Throws IoError when the file cannot be opened or mapped.
  MappedFile(pid_t process, std::int64_t file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Gives a block back to the process's shared heap.
struct ReleaseToHeap {
  std::size_t bytes = 0;
  void operator()(std::byte* data) const noexcept { SharedHeap::of_process().deallocate(data, bytes); }
};

using HeapBytes = std::unique_ptr<std::byte, ReleaseToHeap>;

/// Uninitialised memory of the process's shared heap, which others can read if the system lets them.
[[nodiscard]] HeapBytes heap_bytes(std::size_t bytes);

/// Uninitialised memory of the process's shared heap that others can read.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Throws LimitError when there is no memory that others can read.
  explicit SharedBuffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] const SharedHeap::Place& place() const noexcept { return place_; }

 private:
  HeapBytes data_;
  SharedHeap::Place place_;
};

/// Which ranks of a communicator share this rank's node, and their shared heaps, mapped as they are needed
/// and kept.
class NodeMemory {
 public:
  /// Collective over `comm` the first time; kept with the communicator.
  [[nodiscard]] static NodeMemory& of(const Communicator& comm);

  /// Why shared memory cannot be used: the first rank's reason that has one. The same on every rank.
  [[nodiscard]] const std::optional<ErrorReport>& obstacle() const noexcept { return obstacle_; }
  /// Whether any node has several ranks. The same on every rank.
  [[nodiscard]] bool any_neighbours() const noexcept { return any_neighbours_; }
  /// Whether `rank` is another rank of this node.
  [[nodiscard]] bool is_neighbour(int rank) const noexcept { return process_of(rank) != 0; }

  /// Bytes in the heap of neighbour `rank`, to be read. Throws IoError when they cannot be mapped.
  [[nodiscard]] std::span<const std::byte> view(int rank, const SharedHeap::Place& place, std::size_t bytes);
  /// The same, mapped for as long as the pointer or a copy of it stands.
  [[nodiscard]] std::shared_ptr<const std::byte> hold(int rank, const SharedHeap::Place& place,
                                                      std::size_t bytes);

  /// Words that this rank writes and its neighbours read, 0 at first; the first is taken (see
  /// exchange/samples/shared_columns.hpp for the others).
  [[nodiscard]] std::shared_ptr<std::uint64_t> my_words() const;
  [[nodiscard]] std::shared_ptr<const std::uint64_t> words_of(int rank);
  static constexpr std::size_t num_words = SharedHeap::smallest_block / sizeof(std::uint64_t);

  /// Loans over this communicator so far, counted alike by all its ranks, and one more.
  [[nodiscard]] std::uint64_t count_loan() noexcept { return num_loans_++; }

 private:
  /// What a rank tells its neighbours: where in its heap they find a number that they cannot know otherwise.
  /// Process numbers alone prove nothing: in another container the same number is another process.
  struct Introduction {
    std::int64_t rank = 0;
    std::int64_t process = 0;
    SharedHeap::Place place;
    std::uint64_t secret = 0;
  };

  NodeMemory(std::size_t ranks, std::size_t ranks_of_node)
      : processes_(ranks, 0), introductions_(ranks_of_node) {}
  void meet(const Communicator& comm, const Communicator& node);
  [[nodiscard]] Introduction introduce(int rank);
  void meet_neighbour(const Introduction& other);
  [[nodiscard]] pid_t process_of(int rank) const noexcept {
    return processes_[static_cast<std::size_t>(rank)];
  }

  std::vector<pid_t> processes_;  // by rank; 0 for this rank and those of other nodes
  std::vector<Introduction> introductions_;
  std::map<std::pair<int, std::int64_t>, std::shared_ptr<MappedFile>> files_;  // by rank and file
  std::shared_ptr<SharedBuffer> words_;
  std::map<int, SharedHeap::Place> words_of_neighbours_;
  std::uint64_t num_loans_ = 0;
  std::optional<ErrorReport> obstacle_;
  bool any_neighbours_ = false;
};

}  // namespace evenkeel
