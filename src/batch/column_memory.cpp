#include "evenkeel/batch/column_memory.hpp"

#include <atomic>

namespace evenkeel {
namespace {

std::atomic<std::pmr::memory_resource*>& current() noexcept {
  static std::atomic<std::pmr::memory_resource*> memory = std::pmr::new_delete_resource();
  return memory;
}

}  // namespace

std::pmr::memory_resource* column_memory() noexcept {
  return current().load();
}

std::pmr::memory_resource* set_column_memory(std::pmr::memory_resource& memory) noexcept {
  return current().exchange(&memory);
}

}  // namespace evenkeel
