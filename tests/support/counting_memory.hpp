#pragma once

#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <new>

namespace evenkeel::testing_support {

/// The standard heap, limited to `limit` bytes. Counts allocations and allocated bytes.
class CountingMemory final : public std::pmr::memory_resource {
 public:
  explicit CountingMemory(std::size_t limit = ~std::size_t{0}) : limit_(limit) {}

  [[nodiscard]] std::int64_t requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  [[nodiscard]] std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (bytes > limit_ - held_) throw std::bad_alloc();
    void* const block = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    ++requests_;
    held_ += bytes;
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  mutable std::mutex mutex_;
  std::size_t limit_;
  std::int64_t requests_ = 0;
  std::size_t held_ = 0;
};

}  // namespace evenkeel::testing_support
