#include "evenkeel/batch/field.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

#include "base/memory.hpp"
#include "batch/block_pool.hpp"

namespace evenkeel {
namespace {

class StandardHeap final : public std::pmr::memory_resource {
  /// Minimum number of bytes for which an allocation first checks the available memory. The check takes about
  /// as long as writing 1 MiB.
  static constexpr std::size_t large = std::size_t{64} << 20;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes >= large) require_memory(bytes);
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(address, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

std::atomic<std::pmr::memory_resource*>& current() noexcept {
  static std::atomic<std::pmr::memory_resource*> memory = &standard_heap();
  return memory;
}

}  // namespace

std::pmr::memory_resource& standard_heap() noexcept {
  // The heap is never destroyed, since columns may outlive other static objects.
  alignas(StandardHeap) static std::array<std::byte, sizeof(StandardHeap)> place;
  static StandardHeap& heap = *new (place.data()) StandardHeap;
  return heap;
}

std::pmr::memory_resource* column_memory() noexcept {
  return current().load();
}

std::pmr::memory_resource* set_column_memory(std::pmr::memory_resource& memory) noexcept {
  std::pmr::memory_resource* const before = current().exchange(&memory);
  BlockPool::instance().keep_blocks_only_of(memory);
  return before;
}

}  // namespace evenkeel
