#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <vector>

namespace evenkeel {

/// Memory of this process that other processes of the same user on the node can map and read: large blocks,
/// in anonymous memory files. What is given back is kept and handed out again, so that step after step uses
/// the same pages, which are neither cleared nor mapped anew. Blocks below `smallest_block`, and all blocks
/// where the system gives no memory files, come from the standard heap instead and cannot be read by others.
///
/// Pages are taken from the system when a block is handed out for the first time, not when it is written:
/// a block for which there is no memory is a LimitError or std::bad_alloc, and nobody is killed.
///
/// The files vanish with the last process that has them open. A forked child shares the memory; it must not
/// write. Safe to use from several threads.
class SharedHeap final : public std::pmr::memory_resource {
 public:
  static constexpr std::size_t smallest_block = std::size_t{64} << 10;

  /// Where a byte of this heap is for others: file descriptor `file` of this process, and the offset there.
  struct Place {
    std::int64_t file = -1;
    std::int64_t offset = 0;
  };

  struct Usage {
    std::int64_t in_use = 0;    ///< bytes handed out now
    std::int64_t peak = 0;      ///< most bytes ever handed out at a time
    std::int64_t reserved = 0;  ///< bytes of all files; what was never handed out takes no memory
  };

  SharedHeap() = default;
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;
  ~SharedHeap() override;

  /// The heap of this process. It is never destroyed, since columns may outlive everything else.
  [[nodiscard]] static SharedHeap& of_process();

  /// The place of a run of bytes; nothing unless all of it lies in one file of this heap.
  [[nodiscard]] std::optional<Place> find(const std::byte* address, std::size_t bytes) const;

  [[nodiscard]] Usage usage() const;

 private:
  /// One memory file, mapped whole.
  struct Segment {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::size_t backed = 0;  ///< bytes from `begin` for which the system has given pages
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
  /// Makes sure that the segment has pages up to `end`; else throws and leaves it as it was.
  void back(Segment& segment, const std::byte* end);
  [[nodiscard]] Free::iterator smallest_that_fits(std::size_t bytes);
  /// False where the system gives no memory file. Throws where it has no memory.
  bool add_segment(std::size_t bytes);
  void take(Free::iterator hole, std::size_t bytes);
  void give_back(Free::node_type block) noexcept;

  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  Free free_;  // no two touch inside one segment
  Free used_;  // so that to give a block back takes no memory
  Usage usage_;
};

}  // namespace evenkeel
