#include "batch/block_pool.hpp"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <optional>

#include "evenkeel/batch/field.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t smallest_block = 4096;
constexpr std::size_t max_block_bytes = ~std::size_t{0} / 2;

std::size_t round_up_bytes(std::size_t bytes) {
  if (bytes > max_block_bytes) throw std::bad_alloc();
  if (bytes <= smallest_block) return smallest_block;
  const std::size_t unit = std::bit_floor(bytes) / 8;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

BlockPool::~BlockPool() {
  while (!kept_.empty()) {
    const Block block = remove(kept_.size() - 1);
    block.memory->deallocate(block.first, block.bytes, alignment);
  }
}

BlockPool& BlockPool::instance() {
  alignas(BlockPool) static std::array<std::byte, sizeof(BlockPool)> place;
  static BlockPool& pool = *new (place.data()) BlockPool;
  return pool;
}

std::shared_ptr<std::byte> BlockPool::allocate_block(std::size_t bytes) {
  const Block block = find_or_make(round_up_bytes(bytes));
  return {block.first, [this, block](std::byte*) noexcept { return_block(block); }};
}

BlockPool::Block BlockPool::find_or_make(std::size_t bytes) {
  const std::pmr::memory_resource* const memory = column_memory();
  {
    const std::lock_guard lock(mutex_);
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const Block& block = kept_[i];
      const bool fits = block.memory == memory && block.bytes >= bytes && block.bytes / 2 <= bytes;
      // Among blocks of equal size, prefer the most recently used one, which may still be in the caches.
      if (fits && (!best || block.bytes <= kept_[*best].bytes)) best = i;
    }
    if (best) {
      const Block found = remove(*best);
      in_use_ += found.bytes;
      max_in_use_ = std::max(max_in_use_, in_use_);
      return found;
    }
    in_use_ += bytes;
    max_in_use_ = std::max(max_in_use_, in_use_);
  }
  return make(bytes);
}

BlockPool::Block BlockPool::make(std::size_t bytes) {
  std::pmr::memory_resource* const memory = column_memory();
  const auto allocate = [&] {
    return Block{static_cast<std::byte*>(memory->allocate(bytes, alignment)), bytes, memory};
  };
  try {
    free_cached_blocks(false);
    try {
      return allocate();
    } catch (...) {
      free_cached_blocks(true);
      return allocate();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    throw;
  }
}

void BlockPool::return_block(const Block& block) noexcept {
  {
    const std::lock_guard lock(mutex_);
    in_use_ -= block.bytes;
    if (block.memory == column_memory()) {
      ASAN_POISON_MEMORY_REGION(block.first, block.bytes);
      kept_.push_back(block);
      kept_bytes_ += block.bytes;
      return;
    }
  }
  block.memory->deallocate(block.first, block.bytes, alignment);
}

void BlockPool::free_cached_blocks(bool all) noexcept {
  while (true) {
    Block block;
    {
      const std::lock_guard lock(mutex_);
      if (kept_.empty() || (!all && in_use_ + kept_bytes_ <= max_in_use_ + max_in_use_ / 4)) return;
      const auto smallest = std::ranges::min_element(kept_, {}, &Block::bytes);
      block = remove(static_cast<std::size_t>(smallest - kept_.begin()));
    }
    block.memory->deallocate(block.first, block.bytes, alignment);
  }
}

void BlockPool::free_cached_blocks_except_of(const std::pmr::memory_resource& memory) noexcept {
  while (true) {
    Block block;
    {
      const std::lock_guard lock(mutex_);
      const auto other = std::ranges::find_if(kept_, [&](const Block& b) { return b.memory != &memory; });
      if (other == kept_.end()) return;
      block = remove(static_cast<std::size_t>(other - kept_.begin()));
    }
    block.memory->deallocate(block.first, block.bytes, alignment);
  }
}

BlockPool::Block BlockPool::remove(std::size_t index) noexcept {
  const Block block = kept_[index];
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(index));
  kept_bytes_ -= block.bytes;
  ASAN_UNPOISON_MEMORY_REGION(block.first, block.bytes);
  return block;
}

}  // namespace evenkeel
