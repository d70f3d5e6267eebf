#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>

#include "evenkeel/base/assertions.hpp"
#endif

namespace evenkeel::streaming {

/// Stores that go past the caches, a cache line at a time. They spare reading each line only to overwrite it,
/// a third of the memory traffic of a large copy; but who reads the lines next must fetch them from memory.

#if defined(__SSE2__)
inline constexpr bool available = true;
#else
inline constexpr bool available = false;
#endif

inline constexpr std::size_t line_bytes = 64;

/// From this many bytes written by one call on, they stream: a core's own caches cannot hold that many until
/// a reader comes.
inline constexpr std::size_t threshold = std::size_t{4} << 20;

[[nodiscard]] constexpr bool pays_off(std::size_t total_bytes) noexcept {
  return available && total_bytes >= threshold;
}

/// Bytes from `address` to the next line; line_bytes where one begins.
[[nodiscard]] inline std::size_t room_in_line(const std::byte* address) noexcept {
  return line_bytes - reinterpret_cast<std::uintptr_t>(address) % line_bytes;
}

/// Begins to load the line `offset` bytes after `from`, which need not be there, into the nearest cache: for
/// what is needed very soon.
inline void fetch_soon(const std::byte* from, std::size_t offset) noexcept {
#if defined(__SSE2__)
  // No pointer arithmetic: the address may lie past the end of what `from` points into.
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(from) + offset), _MM_HINT_T0);
#else
  static_cast<void>(from);
  static_cast<void>(offset);
#endif
}

/// Begins to load the line at `address` into the second-level cache: for what is needed some microseconds
/// later, of which the first level could not hold enough.
inline void fetch_later(const std::byte* address) noexcept {
#if defined(__SSE2__)
  _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T1);
#else
  static_cast<void>(address);
#endif
}

/// Begins to load the line `offset` bytes after `from`, which need not be there, for what is read once and
/// not again: past the larger caches where the processor can, which keep what others need.
inline void fetch_once(const std::byte* from, std::size_t offset) noexcept {
#if defined(__SSE2__)
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(from) + offset), _MM_HINT_NTA);
#else
  static_cast<void>(from);
  static_cast<void>(offset);
#endif
}

/// Begins to load the line at `address`, a part of which is going to be written, into the nearest cache.
inline void fetch_to_write(const std::byte* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address, 1, 3);
#else
  static_cast<void>(address);
#endif
}

/// Copies one line. Precondition: `to` begins a line.
inline void store_line(std::byte* to, const std::byte* from) noexcept {
  EVENKEEL_PRECONDITION(cheap, room_in_line(to) == line_bytes, room_in_line(to));
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

/// Copies `count` lines; calls fetch(offset) with the offset in bytes of each before it is copied.
/// Precondition: `to` begins a line, unless `count` is 0.
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

/// Makes what was stored visible before anything that follows.
inline void finish() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace evenkeel::streaming
