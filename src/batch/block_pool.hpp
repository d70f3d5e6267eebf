#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace evenkeel {

/// Pool of memory blocks from column_memory(). Blocks are reused, so most steps do not allocate memory. A
/// block returns to the pool when the last pointer to it or into it is destroyed.
///
/// Requested sizes are rounded up to 4096 bytes or, above that size, by at most an eighth, so that slightly
/// different requests can share blocks. A block serves requests of at least half its size. Blocks in use and
/// blocks kept for reuse together never exceed 5/4 of the maximum number of bytes in use so far: if a new
/// block would exceed this limit, kept blocks are deallocated first. The smallest blocks are deallocated
/// before others, since they can serve the fewest requests.
///
/// Thread-safe. Calls the memory resource without holding the pool's lock, since the resource may also use
/// locks.
class BlockPool {
 public:
  /// Alignment of each block, in bytes.
  static constexpr std::size_t alignment = 256;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  /// Precondition: no block is in use.
  ~BlockPool();

  /// Returns the pool of this process. The pool is never destroyed, since columns may outlive other static
  /// objects.
  [[nodiscard]] static BlockPool& instance();

  /// Returns at least `bytes` uninitialized bytes. If the memory resource throws, deallocates all kept blocks
  /// and tries once more.
  [[nodiscard]] std::shared_ptr<std::byte> allocate_block(std::size_t bytes);

  /// Deallocates kept blocks of all memory resources except `memory`. Blocks of other resources that are in
  /// use are deallocated when they return to the pool.
  void free_cached_blocks_except_of(const std::pmr::memory_resource& memory) noexcept;

 private:
  struct Block {
    std::byte* first = nullptr;
    std::size_t bytes = 0;
    std::pmr::memory_resource* memory = nullptr;
  };

  [[nodiscard]] Block find_or_make(std::size_t bytes);
  [[nodiscard]] Block make(std::size_t bytes);
  void return_block(const Block& block) noexcept;
  /// Deallocates blocks kept for reuse, smallest first: all of them if `all`; otherwise, only until the bytes
  /// in use and kept are within the limit described at BlockPool.
  void free_cached_blocks(bool all) noexcept;
  /// Removes the kept block at `index` and returns it. Precondition: the lock is held.
  Block remove(std::size_t index) noexcept;

  std::mutex mutex_;
  std::vector<Block> kept_;  // blocks kept for reuse, in the order in which they returned to the pool
  std::size_t kept_bytes_ = 0;
  std::size_t in_use_ = 0;
  std::size_t max_in_use_ = 0;
};

}  // namespace evenkeel
