#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory_resource>
#include <new>
#include <utility>

#include "c/failures.hpp"
#include "c/mpi/handles.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel::c {
namespace {

/// Memory that is allocated by the caller's functions.
class CallerMemory final : public std::pmr::memory_resource {
 public:
  CallerMemory(evenkeel_allocate get, evenkeel_deallocate put_back, void* context)
      : allocate_(get), deallocate_(put_back), context_(context) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* block = nullptr;
    const evenkeel_status status =
        allocate_(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(alignment), context_, &block);
    if (status != EVENKEEL_OK) throw_error(report_of_status(status));
    if (block == nullptr && bytes > 0) throw std::bad_alloc();
    return block;
  }
  void do_deallocate(void* block, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    deallocate_(block, context_);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  evenkeel_allocate allocate_;
  evenkeel_deallocate deallocate_;
  void* context_;
};

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_set_allocator(evenkeel_allocate allocate, evenkeel_deallocate deallocate,
                                       void* context) {
  return run_guarded([&] {
    // Memory resource in use before the caller's functions were first set.
    static std::pmr::memory_resource* before = nullptr;
    if (allocate == nullptr) {
      if (before != nullptr) set_column_memory(*std::exchange(before, nullptr));
      return;
    }
    require(reinterpret_cast<const void*>(deallocate), "deallocate");
    // The list is never destroyed, since columns may return blocks to resources that were set earlier.
    static auto& resources = *new std::forward_list<CallerMemory>;
    std::pmr::memory_resource* const last =
        set_column_memory(resources.emplace_front(allocate, deallocate, context));
    if (before == nullptr) before = last;
  });
}

void evenkeel_memory_destroy(evenkeel_memory* memory) {
  delete memory;
}
