#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "evenkeel/base/assertions.hpp"

namespace evenkeel::streaming {

/// Non-temporal stores, which bypass the caches, one cache line at a time. They avoid reading each line
/// before it is overwritten, which is a third of the memory traffic of a large copy. The disadvantage is that
/// the next reader must fetch the lines from memory.

#if defined(__SSE2__)
inline constexpr bool available = true;
#else
inline constexpr bool available = false;
#endif

inline constexpr std::size_t line_bytes = 64;

/// Minimum number of bytes per call for which bypassing the caches is worthwhile: this many bytes would not
/// stay in a core's own caches until a reader needs them.
inline constexpr std::size_t threshold = std::size_t{4} << 20;

[[nodiscard]] constexpr bool is_worthwhile(std::size_t total_bytes) noexcept {
  return available && total_bytes >= threshold;
}

/// Returns the number of bytes from `address` to the start of the next line; line_bytes if a line starts at
/// `address`.
[[nodiscard]] inline std::size_t bytes_left_in_line(const std::byte* address) noexcept {
  return line_bytes - reinterpret_cast<std::uintptr_t>(address) % line_bytes;
}

/// Prefetches the line `offset` bytes after `from` into the first-level cache, for data that is needed very
/// soon. The address need not be valid.
inline void prefetch_to_l1(const std::byte* from, std::size_t offset) noexcept {
#if defined(__SSE2__)
  // Use integer arithmetic, since the address may be beyond the end of the object that `from` points into.
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(from) + offset), _MM_HINT_T0);
#else
  static_cast<void>(from);
  static_cast<void>(offset);
#endif
}

/// Prefetches the line at `address` into the second-level cache, for data that is needed a few microseconds
/// later and would not fit in the first level.
inline void prefetch_to_l2(const std::byte* address) noexcept {
#if defined(__SSE2__)
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T1);
#else
  static_cast<void>(address);
#endif
}

/// Prefetches the line `offset` bytes after `from`, for data that is read only once. Bypasses the larger
/// caches if the processor supports this, so that they keep their contents. The address need not be valid.
inline void prefetch_read_once(const std::byte* from, std::size_t offset) noexcept {
#if defined(__SSE2__)
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(from) + offset), _MM_HINT_NTA);
#else
  static_cast<void>(from);
  static_cast<void>(offset);
#endif
}

/// Prefetches the line at `address`, which is about to be partially overwritten, into the first-level cache.
inline void prefetch_for_write(const std::byte* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address, 1, 3);
#else
  static_cast<void>(address);
#endif
}

/// Copies one line. Precondition: `to` is aligned to line_bytes.
inline void store_line(std::byte* to, const std::byte* from) noexcept {
  EVENKEEL_PRECONDITION(cheap, bytes_left_in_line(to) == line_bytes, bytes_left_in_line(to));
#if defined(__SSE2__)
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  const __m128i first = _mm_loadu_si128(source);
  const __m128i second = _mm_loadu_si128(source + 1);
  const __m128i third = _mm_loadu_si128(source + 2);
  const __m128i fourth = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, first);
  _mm_stream_si128(target + 1, second);
  _mm_stream_si128(target + 2, third);
  _mm_stream_si128(target + 3, fourth);
#else
  std::memcpy(to, from, line_bytes);
#endif
}

/// Copies `count` lines. Calls fetch(offset) with the byte offset of each line before it is copied.
/// Precondition: `to` is aligned to line_bytes, unless `count` is 0.
template <typename Fetch>
void store_lines(std::byte* to, const std::byte* from, std::size_t count, Fetch fetch) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t offset = i * line_bytes;
    fetch(offset);
    store_line(to + offset, from + offset);
  }
}

inline void store_lines(std::byte* to, const std::byte* from, std::size_t count) noexcept {
  store_lines(to, from, count, [](std::size_t) {});
}

/// Ensures that other threads see all previous non-temporal stores of this thread before any later store.
inline void finish() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace evenkeel::streaming
