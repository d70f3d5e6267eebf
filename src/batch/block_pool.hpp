#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace evenkeel {

/// Blocks of column_memory() that are kept and used again, so that step after step finds its memory without
/// asking for any. A block goes back to the pool when the last pointer to it or into it has gone.
///
/// Blocks are rounded up by at most an eighth, so that needs which differ a little find each other's blocks,
/// and given out for as little as half of what they have. Those in use and those kept never have more than
/// 5/4 of the bytes that were in use at the time of the greatest need: where a new block would exceed that,
/// kept ones go back to their memory first, the smallest before others, since they serve the fewest needs.
///
/// Safe to use from several threads. Calls the memory outside of its lock, since memory may have locks of its
/// own.
class BlockPool {
 public:
  /// Of each block.
  static constexpr std::size_t alignment = 256;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  /// Precondition: no block is in use.
  ~BlockPool();

  /// The pool of this process. It is never destroyed, since columns may outlive everything else.
  [[nodiscard]] static BlockPool& of_process();

  /// At least so many uninitialized bytes. Throws what column_memory() throws, after trying again without
  /// kept blocks.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::size_t bytes);

  /// Kept blocks of other memory go back there. Those in use do so later.
  void keep_only(const std::pmr::memory_resource& memory) noexcept;

 private:
  struct Block {
    std::byte* first = nullptr;
    std::size_t bytes = 0;
    std::pmr::memory_resource* memory = nullptr;
  };

  [[nodiscard]] Block find_or_make(std::size_t bytes);
  [[nodiscard]] Block make(std::size_t bytes);
  void give_back(const Block& block) noexcept;
  /// Returns kept blocks to their memory: all, or until there are no more bytes than there may be.
  void drop_kept(bool all) noexcept;
  /// The kept block at `index`, which is then no more kept. The lock is held.
  Block remove(std::size_t index) noexcept;

  std::mutex mutex_;
  std::vector<Block> kept_;  // in the order in which they came back; has room for all blocks
  std::size_t num_blocks_ = 0;
  std::size_t kept_bytes_ = 0;
  std::size_t in_use_ = 0;
  std::size_t most_in_use_ = 0;
};

}  // namespace evenkeel
