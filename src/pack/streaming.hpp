#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
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

/// How far ahead of a copy its source is fetched. Runs of rows are a few kilobytes long, and the processor's
/// own prefetching starts anew in each: without help every run begins with a stall.
inline constexpr std::size_t lines_ahead = 48;

[[nodiscard]] constexpr bool pays_off(std::size_t total_bytes) noexcept {
  return available && total_bytes >= threshold;
}

/// Bytes from `address` to the next line; line_bytes where one begins.
[[nodiscard]] inline std::size_t room_in_line(const std::byte* address) noexcept {
  return line_bytes - reinterpret_cast<std::uintptr_t>(address) % line_bytes;
}

inline void fetch(const std::byte* line) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(line);
#else
  static_cast<void>(line);
#endif
}

/// Copies one line. Precondition: `to` begins a line.
inline void store_line(std::byte* to, const std::byte* from) noexcept {
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

/// Copies all whole lines of `from` and returns their bytes; fetches the beginning of `next`, the source of
/// the copy to come, while this one ends. Precondition: `to` begins a line.
inline std::size_t store_lines(std::byte* to, std::span<const std::byte> from,
                               std::span<const std::byte> next) noexcept {
  const std::size_t lines = from.size() / line_bytes;
  const std::size_t fetch_own = lines > lines_ahead ? lines - lines_ahead : 0;
  const std::size_t fetch_next = std::min(lines - fetch_own, next.size() / line_bytes);
  const std::byte* source = from.data();
  const auto store = [&](std::size_t count, const std::byte* ahead) {
    for (std::size_t i = 0; i < count; ++i) {
      fetch(ahead + i * line_bytes);
      store_line(to + i * line_bytes, source + i * line_bytes);
    }
    to += count * line_bytes;
    source += count * line_bytes;
  };
  store(fetch_own, source + (lines - fetch_own) * line_bytes);
  store(fetch_next, next.data());
  for (std::size_t i = fetch_own + fetch_next; i < lines; ++i, to += line_bytes, source += line_bytes) {
    store_line(to, source);
  }
  return lines * line_bytes;
}

/// Makes what was stored visible before anything that follows.
inline void finish() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace evenkeel::streaming
