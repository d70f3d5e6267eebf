#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <mutex>
#include <new>

#include "evenkeel/batch/field.hpp"

namespace evenkeel::testing_support {

/// Replaces column_memory() of the process by one whose allocations fail on request. All threads of the
/// process share one count. Blocks may outlive this object.
class FailingColumns {
 public:
  enum class Reach : std::uint8_t {
    one,   ///< that one allocation
    rest,  ///< all from that one on
  };

  /// While this object exists, allocations are not counted and do not fail.
  class Paused {
   public:
    Paused() { is_paused = true; }
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;
    ~Paused() { is_paused = false; }
  };

  FailingColumns() : memory_(memory_over(*column_memory())), before_(set_column_memory(memory_)) {}
  FailingColumns(const FailingColumns&) = delete;
  FailingColumns& operator=(const FailingColumns&) = delete;
  ~FailingColumns() { set_column_memory(*before_); }

  /// Starts counting; allocation number `fails` (0-based) throws std::bad_alloc. If `fails` is negative, no
  /// allocation fails.
  void arm(std::int64_t fails, Reach reach = Reach::one) {
    const std::lock_guard lock(memory_.mutex);
    memory_.next = 0;
    memory_.fails = fails;
    memory_.reach = reach;
    memory_.is_armed = true;
  }
  /// Lets all later allocations succeed. Returns the number of allocations since arm().
  std::int64_t disarm() {
    const std::lock_guard lock(memory_.mutex);
    memory_.is_armed = false;
    return memory_.next;
  }

 private:
  class Memory final : public std::pmr::memory_resource {
   public:
    explicit Memory(std::pmr::memory_resource& upstream) : upstream_(upstream) {}

    std::mutex mutex;
    std::int64_t next = 0;
    std::int64_t fails = -1;
    Reach reach = Reach::one;
    bool is_armed = false;

   private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
      if (fails_now()) throw std::bad_alloc();
      return upstream_.allocate(bytes, alignment);
    }
    void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
      upstream_.deallocate(block, bytes, alignment);
    }
    [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
      return this == &other;
    }
    bool fails_now() {
      const std::lock_guard lock(mutex);
      if (!is_armed || is_paused) return false;
      const std::int64_t number = next++;
      return fails >= 0 && (number == fails || (reach == Reach::rest && number > fails));
    }

    std::pmr::memory_resource& upstream_;
  };

  /// Returns the same object for the same memory as long as the process runs, because columns are returned to
  /// that object.
  static Memory& memory_over(std::pmr::memory_resource& upstream) {
    static std::map<std::pmr::memory_resource*, Memory> all;
    return all.try_emplace(&upstream, upstream).first->second;
  }

  inline static std::atomic<bool> is_paused{false};

  Memory& memory_;
  std::pmr::memory_resource* before_;
};

}  // namespace evenkeel::testing_support
