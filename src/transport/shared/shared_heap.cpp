#include "transport/shared/shared_heap.hpp"

#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>

#include "base/memory.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t first_segment = std::size_t{4} << 20;
constexpr std::size_t largest_growth = std::size_t{1} << 30;
constexpr std::size_t least_backing = std::size_t{4} << 20;
constexpr std::size_t backed_at_once = std::size_t{16} << 20;

constexpr std::size_t round_up_to_pages(std::size_t bytes) noexcept {
  return (bytes + page - 1) / page * page;
}

// Functions that exist only on Linux, with fallbacks for other systems.
#ifdef __linux__
/// Returns the descriptor of a new file in memory, or -1.
int create_memory_file() {
  return memfd_create("evenkeel", MFD_CLOEXEC);
}

void* map_whole(int file, std::size_t bytes) {
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  // The error is ignored if the system does not support huge pages for shared memory.
  if (begin != MAP_FAILED) madvise(begin, bytes, MADV_HUGEPAGE);
  return begin;
}

/// Makes the system allocate the pages now, while it can still report that memory is exhausted. Systems
/// without this function allocate pages when they are written.
void allocate_pages(int file, std::size_t offset, std::size_t bytes) {
  while (fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return;
    if (errno != EINTR) throw std::bad_alloc();
  }
}

void release_pages(int file, std::size_t offset, std::size_t bytes) noexcept {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}
#else
// Without /proc/PID/fd, other processes could not open a memory file. Memory files are therefore not used on
// these systems: all blocks come from the standard heap, and the ranks of a node send messages.
int create_memory_file() {
  return -1;
}
void* map_whole(int, std::size_t) {
  return MAP_FAILED;
}
void allocate_pages(int, std::size_t, std::size_t) {}
void release_pages(int, std::size_t, std::size_t) noexcept {}
#endif

}  // namespace

SharedHeap::~SharedHeap() {
  for (const Segment& segment : segments_) {
    ASAN_UNPOISON_MEMORY_REGION(segment.begin, segment.bytes);
    munmap(segment.begin, segment.bytes);
    close(segment.file);
  }
}

SharedHeap& SharedHeap::instance() {
  static SharedHeap& heap = *new SharedHeap;
  return heap;
}

std::optional<SharedHeap::Place> SharedHeap::find(const std::byte* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Segment* segment = segment_of(address);
  if (segment == nullptr || address + bytes > segment->begin + segment->bytes) return std::nullopt;
  return Place{segment->file, address - segment->begin};
}

SharedHeap::Usage SharedHeap::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

void* SharedHeap::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes < smallest_block || alignment > page) return standard_heap().allocate(bytes, alignment);
  const std::size_t taken = round_up_to_pages(bytes);
  const std::lock_guard lock(mutex_);
  auto hole = find_smallest_fit(taken);
  if (hole == free_.end() && add_segment(taken)) hole = find_smallest_fit(taken);
  if (hole == free_.end()) return standard_heap().allocate(bytes, alignment);
  std::byte* const begin = hole->first;
  allocate_pages_until(*segment_of(begin), begin + taken);
  allocate_from_hole(hole, taken);
  usage_.in_use += static_cast<std::int64_t>(taken);
  usage_.peak = std::max(usage_.peak, usage_.in_use);
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  return begin;
}

void SharedHeap::do_deallocate(void* address, std::size_t bytes, std::size_t alignment) {
  auto* const begin = static_cast<std::byte*>(address);
  const std::lock_guard lock(mutex_);
  if (segment_of(begin) == nullptr) {
    standard_heap().deallocate(address, bytes, alignment);
  } else {
    free_range(begin, round_up_to_pages(bytes));
    usage_.in_use -= static_cast<std::int64_t>(round_up_to_pages(bytes));
  }
}

// Allocates the pages of a segment up to `end`, and at least `least_backing` bytes of them at a time if the
// segment has that many left. Blocks are taken from the front of a hole, so the bytes that were never handed
// out are at the end of the segment.
void SharedHeap::allocate_pages_until(Segment& segment, const std::byte* end) {
  const auto wanted = static_cast<std::size_t>(end - segment.begin);
  if (wanted <= segment.backed_bytes) return;
  const std::size_t before = segment.backed_bytes;
  const std::size_t target = std::min(std::max(wanted, before + least_backing), segment.bytes);
  require_memory(target - before);
  try {
    while (segment.backed_bytes < target) {
      // Allocate in small pieces, since other processes of the node request memory at the same time.
      const std::size_t bytes = std::min(target - segment.backed_bytes, backed_at_once);
      require_memory(bytes);
      allocate_pages(segment.file, segment.backed_bytes, bytes);
      segment.backed_bytes += bytes;
    }
  } catch (...) {
    release_pages(segment.file, before, target - before);
    segment.backed_bytes = before;
    throw;
  }
}

SharedHeap::Segment* SharedHeap::segment_of(const std::byte* address) noexcept {
  const auto found =
      std::ranges::find_if(segments_, [&](const Segment& segment) { return segment.holds(address); });
  return found == segments_.end() ? nullptr : &*found;
}

const SharedHeap::Segment* SharedHeap::segment_of(const std::byte* address) const noexcept {
  return const_cast<SharedHeap*>(this)->segment_of(address);
}

SharedHeap::Free::iterator SharedHeap::find_smallest_fit(std::size_t bytes) {
  auto best = free_.end();
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    if (hole->second >= bytes && (best == free_.end() || hole->second < best->second)) best = hole;
  }
  return best;
}

// To limit the number of segments, each one is as large as all previous segments together, but at least
// first_segment and, unless the block is larger, at most largest_growth. Memory is allocated only for blocks
// that are handed out.
bool SharedHeap::add_segment(std::size_t bytes) {
  require_memory(bytes);
  const std::size_t growth =
      std::clamp(static_cast<std::size_t>(usage_.reserved), first_segment, largest_growth);
  Segment segment{nullptr, std::max(bytes, growth), 0, create_memory_file()};
  if (segment.file < 0) return false;
  void* begin = MAP_FAILED;
  if (ftruncate(segment.file, static_cast<off_t>(segment.bytes)) == 0)
    begin = map_whole(segment.file, segment.bytes);
  if (begin == MAP_FAILED) {
    close(segment.file);
    return false;
  }
  segment.begin = static_cast<std::byte*>(begin);
  segments_.push_back(segment);
  usage_.reserved += static_cast<std::int64_t>(segment.bytes);
  free_range(segment.begin, segment.bytes);
  return true;
}

// Allocates the first bytes of a hole, which is a free range of a segment.
void SharedHeap::allocate_from_hole(Free::iterator hole, std::size_t bytes) {
  if (hole->second > bytes) free_.emplace(hole->first + bytes, hole->second - bytes);
  free_.erase(hole);
}

// Turns a block into a hole, and joins it with adjacent holes in its segment.
void SharedHeap::free_range(std::byte* begin, std::size_t bytes) {
  ASAN_POISON_MEMORY_REGION(begin, bytes);
  const Segment* segment = segment_of(begin);
  const auto after = free_.lower_bound(begin);
  const auto before = after == free_.begin() ? free_.end() : std::prev(after);
  if (after != free_.end() && after->first == begin + bytes && segment->holds(after->first)) {
    bytes += after->second;
    free_.erase(after);
  }
  if (before != free_.end() && before->first + before->second == begin && segment->holds(before->first)) {
    before->second += bytes;
  } else {
    free_.emplace(begin, bytes);
  }
}

}  // namespace evenkeel
