#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace evenkeel {

/// The standard heap, which grants large blocks only where there is memory for them (require_memory): an
/// impossible request throws LimitError instead of ending the process when the block is written.
[[nodiscard]] std::pmr::memory_resource& standard_heap() noexcept;

/// Where new columns of this process get their memory from: standard_heap(), unless set otherwise.
[[nodiscard]] std::pmr::memory_resource* column_memory() noexcept;

/// Lets new columns of this process get their memory from `memory`, which must outlive all of them; returns
/// what it was before. Columns keep the memory that they have. Safe to call from any thread.
///
/// How an embedding program has what it is handed in memory of its own, pinned for copies to a device, say:
/// in every packed micro-batch, whatever is received, and results brought home, but for tensors that
/// tensor-parallel ranks of a node have in common. `memory` is asked by the threads that make steps, and
/// should keep blocks that come back: a step asks for as many as the one before. What it throws, all ranks
/// throw. Where nothing was set, the first service or exchange sets a heap that the other ranks of the node
/// can read; out of other memory, samples reach them with one more copy.
std::pmr::memory_resource* set_column_memory(std::pmr::memory_resource& memory) noexcept;

/// Allocates from what column_memory() was when the container was made or copied, aligned for values of any
/// type, which columns of bytes hold. Moves take the memory along. Elements that are given no value are left
/// as the memory was, as make_unique_for_overwrite does.
template <typename T>
class ColumnAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  ColumnAllocator() noexcept : memory_(column_memory()) {}
  template <typename U>
  ColumnAllocator(const ColumnAllocator<U>& other) noexcept : memory_(other.memory()) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(memory_->allocate(count * sizeof(T), alignment));
  }
  void deallocate(T* address, std::size_t count) noexcept {
    memory_->deallocate(address, count * sizeof(T), alignment);
  }
  template <typename U, typename... Arguments>
  void construct(U* element, Arguments&&... arguments) noexcept {
    if constexpr (sizeof...(Arguments) == 0) {
      ::new (static_cast<void*>(element)) U;
    } else {
      std::construct_at(element, std::forward<Arguments>(arguments)...);
    }
  }
  [[nodiscard]] ColumnAllocator select_on_container_copy_construction() const noexcept { return {}; }
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return memory_; }

  friend bool operator==(const ColumnAllocator& a, const ColumnAllocator& b) noexcept {
    return *a.memory_ == *b.memory_;
  }

 private:
  static constexpr std::size_t alignment = alignof(std::max_align_t);
  std::pmr::memory_resource* memory_;
};

}  // namespace evenkeel
