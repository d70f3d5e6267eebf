#include "buffer/values/value_memory.hpp"

#include <bit>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <new>

namespace evenkeel {
namespace {

constexpr std::int64_t least_kept = std::int64_t{16} << 10;  // malloc keeps smaller ones itself
// Maximum total size of the freed memory that is kept.
constexpr std::int64_t most_kept = std::int64_t{512} << 20;

/// Returns the size to allocate: at most an eighth more than requested, so that values of similar sizes can
/// reuse the same memory.
std::int64_t allocated_size(std::int64_t bytes) {
  const std::int64_t unit = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes))) / 8;
  return (bytes + unit - 1) / unit * unit;
}

/// Blocks of freed memory. take() returns the most recently freed block of a size. When the total size
/// exceeds its limit, the oldest blocks of any size are returned to the system.
class FreeMemory {
 public:
  /// Returns null if there is no block of this size.
  char* take(std::int64_t size) {
    const std::lock_guard lock(mutex_);
    auto& of_size = by_size_[size];
    if (of_size.empty()) return nullptr;
    char* const memory = of_size.back()->memory;
    blocks_.erase(of_size.back());
    of_size.pop_back();
    kept_ -= size;
    return memory;
  }
  void give_back(char* memory, std::int64_t size) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back({memory, size});
    by_size_[size].push_back(std::prev(blocks_.end()));
    for (kept_ += size; kept_ > most_kept; blocks_.pop_front()) {
      const Block& oldest = blocks_.front();
      by_size_[oldest.size].pop_front();
      kept_ -= oldest.size;
      std::free(oldest.memory);
    }
  }

 private:
  struct Block {
    char* memory = nullptr;
    std::int64_t size = 0;
  };

  std::mutex mutex_;
  std::list<Block> blocks_;  // oldest first
  std::map<std::int64_t, std::deque<std::list<Block>::iterator>> by_size_;
  std::int64_t kept_ = 0;
};

/// Never destroyed, since values may be freed at any time before the process ends.
FreeMemory& free_memory() {
  static auto* const memory = new FreeMemory;
  return *memory;
}

}  // namespace

std::shared_ptr<char[]> make_value_memory(std::int64_t bytes) {
  if (bytes < least_kept) return std::make_shared_for_overwrite<char[]>(static_cast<std::size_t>(bytes));
  const std::int64_t size = allocated_size(bytes);
  char* block = free_memory().take(size);
  if (block == nullptr) block = static_cast<char*>(std::malloc(static_cast<std::size_t>(size)));
  if (block == nullptr) throw std::bad_alloc();
  return {block, [size](char* freed) { free_memory().give_back(freed, size); }};
}

}  // namespace evenkeel
