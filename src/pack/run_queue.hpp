#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/streaming.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// Bytes to copy, or padding if `from` is null.
struct SourceRun {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

/// Queue of runs whose scattered sources are prefetched before they are copied. Runs of rows are a few
/// kilobytes long, and the hardware prefetcher starts over in each run, so every run would begin with a
/// stall. Instead, prefetching stays a fixed distance ahead of copying, across as many runs as needed. It
/// advances line by line, since many prefetches at once would have to wait for each other.
class RunQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  /// Returns whether the front run must be popped before the next push: the runs behind it have at least
  /// `distance` source bytes, or the queue has reached its capacity.
  [[nodiscard]] bool full() const noexcept {
    if (empty()) return false;
    const Waiting& front = at(begin_);
    return end_ - begin_ == capacity || pushed_ - front.position >= source_bytes(front.run) + distance;
  }
  [[nodiscard]] const SourceRun& front() const noexcept { return at(begin_).run; }

  /// Precondition: the queue is not full and the run is not empty.
  void push(const SourceRun& run) noexcept {
    EVENKEEL_PRECONDITION(cheap, !full() && run.bytes > 0, full(), run.bytes);
    at(end_++) = {run, pushed_};
    pushed_ += source_bytes(run);
    prefetch_to_distance();
  }
  /// Precondition: the queue is not empty.
  void pop() noexcept {
    EVENKEEL_PRECONDITION(cheap, !empty());
    ++begin_;
    prefetch_to_distance();
  }

  /// Stores `count` lines of the front run. For each of them, prefetches the next line in the queue that has
  /// not been prefetched yet, if there is one.
  void store_lines(std::byte* to, const std::byte* from, std::size_t count) noexcept {
    while (count > 0) {
      const Lines ahead = next_lines(count);
      if (ahead.count == 0) return streaming::store_lines(to, from, count);
      const std::size_t stored = ahead.count;
      streaming::store_lines(to, from, stored,
                             [&](std::size_t at) { streaming::prefetch_to_l2(ahead.first + at); });
      to += stored * streaming::line_bytes;
      from += stored * streaming::line_bytes;
      count -= stored;
    }
  }

 private:
  /// Prefetch distance in bytes. It hides many times the latency of memory, since a prefetch may also miss
  /// the TLB, but it still fits in a cache of 256 KiB.
  static constexpr std::size_t distance = std::size_t{64} << 10;
  static constexpr std::size_t capacity = 64;

  struct Waiting {
    SourceRun run;
    std::size_t position = 0;  // total source bytes of all runs before this one
  };
  struct Lines {
    const std::byte* first = nullptr;
    std::size_t count = 0;
  };

  [[nodiscard]] static std::size_t source_bytes(const SourceRun& run) noexcept {
    return run.from == nullptr ? 0 : run.bytes;
  }
  [[nodiscard]] Waiting& at(std::size_t number) noexcept { return waiting_[number % capacity]; }
  [[nodiscard]] const Waiting& at(std::size_t number) const noexcept { return waiting_[number % capacity]; }

  /// Returns at most `count` source lines of one run that have not been prefetched yet, and counts them as
  /// prefetched. Returns an empty range if all lines of all runs have been prefetched.
  [[nodiscard]] Lines next_lines(std::size_t count) noexcept {
    while (fetching_ != end_) {
      const SourceRun& run = at(fetching_).run;
      const std::size_t bytes = source_bytes(run);
      if (fetched_ < bytes) {
        const std::size_t left = (bytes - fetched_ + streaming::line_bytes - 1) / streaming::line_bytes;
        const Lines lines{run.from + fetched_, std::min(count, left)};
        fetched_ += lines.count * streaming::line_bytes;
        return lines;
      }
      ++fetching_;
      fetched_ = 0;
    }
    return {};
  }

  /// Prefetches lines of the queued runs until `distance` bytes after the start of the front run are covered.
  /// With store_lines() only, prefetching would fall behind, since run sizes are not multiples of the
  /// cache-line size.
  void prefetch_to_distance() noexcept {
    const std::size_t goal = (empty() ? pushed_ : at(begin_).position) + distance;
    while (fetching_ != end_ && at(fetching_).position + fetched_ < goal) {
      const Lines line = next_lines(1);
      if (line.count > 0) streaming::prefetch_to_l2(line.first);
    }
  }

  std::array<Waiting, capacity> waiting_;
  // Numbers of runs, counted from the first one that was pushed: the front run, the next run to push, and the
  // next run to prefetch.
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t fetching_ = 0;
  std::size_t fetched_ = 0;  // number of bytes of run fetching_ that were prefetched, in whole lines
  std::size_t pushed_ = 0;   // total source bytes of all runs pushed so far
};

}  // namespace evenkeel
