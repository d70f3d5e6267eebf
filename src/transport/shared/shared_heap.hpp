#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <vector>

namespace evenkeel {

/// Memory of this process that other processes of the same user on the same node can map and read. It
/// consists of large blocks in anonymous memory files. Freed blocks are kept and handed out again, so every
/// step uses the same pages, which need not be cleared or mapped again. Blocks below `smallest_block`, blocks
/// with an alignment above one page, and all blocks if the system does not provide memory files come from the
/// standard heap instead and cannot be read by other processes.
///
/// Pages are allocated when a block is handed out for the first time, not when it is written. Therefore, if a
/// block does not fit in memory, LimitError or std::bad_alloc is thrown, and no process is killed.
///
/// The files disappear when the last process that has them open ends. A forked child shares the memory and
/// must not write to it. Thread-safe.
class SharedHeap final : public std::pmr::memory_resource {
 public:
  static constexpr std::size_t smallest_block = std::size_t{64} << 10;

  /// Location of a byte of this heap, for other processes: `file` is a file descriptor of this process, and
  /// `offset` a position in that file.
  struct Place {
    std::int64_t file = -1;
    std::int64_t offset = 0;
  };

  struct Usage {
    std::int64_t in_use = 0;  ///< number of bytes that are handed out at present
    std::int64_t peak = 0;    ///< maximum of `in_use` so far
    /// Total size of all files; pages that were never handed out do not use memory.
    std::int64_t reserved = 0;
  };

  SharedHeap() = default;
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;
  ~SharedHeap() override;

  /// Returns the heap of this process. It is never destroyed, since columns may outlive everything else.
  [[nodiscard]] static SharedHeap& instance();

  /// Returns the place of `bytes` bytes at `address`, or nullopt if they are not all in one file of this
  /// heap.
  [[nodiscard]] std::optional<Place> find(const std::byte* address, std::size_t bytes) const;

  [[nodiscard]] Usage usage() const;

 private:
  /// A memory file, which is mapped as a whole.
  struct Segment {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::size_t backed_bytes = 0;  ///< number of bytes from `begin` for which pages are allocated
    int file = -1;

    [[nodiscard]] bool holds(const std::byte* address) const noexcept {
      return address >= begin && address < begin + bytes;
    }
  };
  using Free = std::map<std::byte*, std::size_t>;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  [[nodiscard]] Segment* segment_of(const std::byte* address) noexcept;
  [[nodiscard]] const Segment* segment_of(const std::byte* address) const noexcept;
  /// Allocates the pages of the segment up to `end`. If that fails, throws and leaves the segment unchanged.
  void allocate_pages_until(Segment& segment, const std::byte* end);
  [[nodiscard]] Free::iterator find_smallest_fit(std::size_t bytes);
  /// Adds a segment of at least `bytes` bytes. Returns false if the system cannot create or map a memory
  /// file. Throws LimitError if `bytes` bytes are not available.
  bool add_segment(std::size_t bytes);
  void allocate_from_hole(Free::iterator hole, std::size_t bytes);
  void free_range(std::byte* begin, std::size_t bytes);

  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  Free free_;  // free ranges (holes): begin and size in bytes; adjacent holes of a segment are joined
  Usage usage_;
};

}  // namespace evenkeel
