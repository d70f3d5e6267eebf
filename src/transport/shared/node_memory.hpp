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

/// A read-only mapping of another process's memory file.
class MappedFile {
 public:
  /// Throws IoError if the file cannot be opened or mapped.
  MappedFile(pid_t process, std::int64_t file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Deleter that returns a block to the process's shared heap.
struct ReleaseToHeap {
  std::size_t bytes = 0;
  void operator()(std::byte* data) const noexcept { SharedHeap::instance().deallocate(data, bytes); }
};

using HeapBytes = std::unique_ptr<std::byte, ReleaseToHeap>;

/// Allocates uninitialized memory from the process's shared heap. Other processes can read it only if the
/// system provides memory files (see SharedHeap).
[[nodiscard]] HeapBytes allocate_heap_bytes(std::size_t bytes);

/// Uninitialized memory of the process's shared heap that other processes can read.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Throws LimitError if the heap cannot provide memory that other processes can read.
  explicit SharedBuffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] const SharedHeap::Place& place() const noexcept { return place_; }

 private:
  HeapBytes data_;
  SharedHeap::Place place_;
};

/// The neighbors of a rank, which are the other ranks of a communicator on the same node, and mappings of
/// their shared heaps. Each heap file is mapped on first use and remains mapped.
class NodeMemory {
 public:
  /// Returns the NodeMemory of `comm`, which is stored with the communicator. The first call is collective
  /// over `comm`.
  [[nodiscard]] static NodeMemory& get(const Communicator& comm);

  /// Returns why shared memory cannot be used: the error of the lowest rank that has one. Returns nullopt if
  /// it can be used. The result is the same on every rank.
  [[nodiscard]] const std::optional<ErrorReport>& unavailability() const noexcept { return unavailability_; }
  /// Returns whether any node has several ranks. The result is the same on every rank.
  [[nodiscard]] bool any_rank_has_neighbors() const noexcept { return any_rank_has_neighbors_; }
  [[nodiscard]] bool is_neighbor(int rank) const noexcept { return process_of(rank) != 0; }

  /// Returns `bytes` readable bytes at `place` in the heap of neighbor `rank`, valid while this object
  /// exists. Throws IoError if the file cannot be mapped or is too short.
  [[nodiscard]] std::span<const std::byte> view(int rank, const SharedHeap::Place& place, std::size_t bytes);
  /// Returns the same bytes as view(), valid as long as the pointer or a copy of it exists, even after this
  /// object is destroyed.
  [[nodiscard]] std::shared_ptr<const std::byte> view_shared(int rank, const SharedHeap::Place& place,
                                                             std::size_t bytes);

  /// Returns the `num_words` words that this rank writes and its neighbors read with words_of(). All words
  /// are initially 0 except for the first, which is reserved for verifying the mapping. The other words are
  /// used to return loans of columns (shared_columns.cpp in the module exchange).
  [[nodiscard]] std::shared_ptr<std::uint64_t> own_words() const;
  [[nodiscard]] std::shared_ptr<const std::uint64_t> words_of(int rank);
  static constexpr std::size_t num_words = SharedHeap::smallest_block / sizeof(std::uint64_t);

  /// Returns the number of the next loan of columns over this communicator. Numbers begin at 0 and are equal
  /// on all of its ranks.
  [[nodiscard]] std::uint64_t next_loan_number() noexcept { return num_loans_++; }

 private:
  /// Message from a rank to its neighbors: the place of a random number in its heap. Reading that number
  /// verifies the mapping. A process id is not sufficient, since a process in a different container may have
  /// the same id.
  struct Introduction {
    std::int64_t rank = 0;
    std::int64_t process = 0;
    SharedHeap::Place place;
    std::uint64_t secret = 0;
  };

  NodeMemory(std::size_t ranks, std::size_t ranks_of_node)
      : processes_(ranks, 0), introductions_(ranks_of_node) {}
  void connect_neighbors(const Communicator& comm, const Communicator& node);
  [[nodiscard]] Introduction make_introduction(int rank);
  void open_neighbor_memory(const Introduction& other);
  [[nodiscard]] pid_t process_of(int rank) const noexcept {
    return processes_[static_cast<std::size_t>(rank)];
  }

  std::vector<pid_t> processes_;  // process id of each rank; 0 for this rank and for ranks of other nodes
  std::vector<Introduction> introductions_;
  // By rank and file descriptor (SharedHeap::Place::file).
  std::map<std::pair<int, std::int64_t>, std::shared_ptr<MappedFile>> files_;
  std::shared_ptr<SharedBuffer> words_;
  std::map<int, SharedHeap::Place> words_of_neighbors_;
  std::uint64_t num_loans_ = 0;
  std::optional<ErrorReport> unavailability_;
  bool any_rank_has_neighbors_ = false;
};

}  // namespace evenkeel
