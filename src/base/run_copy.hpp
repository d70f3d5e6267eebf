#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/streaming.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// Copies runs of bytes, each to its own destination. Bypasses the caches if the copies are large. The copies
/// are complete only after the destructor has run.
class RunCopier {
 public:
  /// `total_bytes` is the total size of all runs. It determines whether stores bypass the caches.
  explicit RunCopier(std::size_t total_bytes) noexcept : streams_(streaming::is_worthwhile(total_bytes)) {}
  RunCopier(const RunCopier&) = delete;
  RunCopier& operator=(const RunCopier&) = delete;
  ~RunCopier() {
    if (!streams_) return;
    for (std::size_t i = 0; i < waiting_.size(); ++i) stream(next());
    streaming::finish();
  }

  /// Copies one run. Precondition: the run does not overlap the destination of another run.
  void operator()(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    if (!streams_) {
      std::memcpy(to, from, bytes);
      return;
    }
    EVENKEEL_PRECONDITION(thorough, !overlaps_waiting({to, from, bytes}), bytes);
    // The first and last cache lines of a run may also contain bytes of adjacent runs. Both lines are only
    // partially overwritten, so they must be read first.
    streaming::prefetch_for_write(to);
    streaming::prefetch_for_write(to + bytes - 1);
    Run& longest_waiting = next();
    stream(longest_waiting);
    longest_waiting = {to, from, bytes};
  }

 private:
  struct Run {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
  };

  /// Prefetch distance in the source, in bytes. Prefetching continues after the end of the run, because the
  /// next run often begins there.
  static constexpr std::size_t ahead = std::size_t{4} << 10;

  [[nodiscard]] static bool overlap(const std::byte* one, std::size_t bytes, const std::byte* other,
                                    std::size_t other_bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(one);
    const auto second = reinterpret_cast<std::uintptr_t>(other);
    return first < second + other_bytes && second < first + bytes;
  }

  /// Returns whether the run overlaps a pending run. Runs that have already been written cannot be checked.
  [[nodiscard]] bool overlaps_waiting(const Run& run) const noexcept {
    return std::ranges::any_of(waiting_, [&](const Run& other) {
      return overlap(run.to, run.bytes, other.to, other.bytes) ||
             overlap(run.to, run.bytes, other.from, other.bytes) ||
             overlap(run.from, run.bytes, other.to, other.bytes);
    });
  }

  [[nodiscard]] Run& next() noexcept { return waiting_[turn_++ % waiting_.size()]; }

  static void stream(const Run& run) noexcept {
    if (run.bytes == 0) return;
    const std::size_t head =
        std::min(streaming::bytes_left_in_line(run.to) % streaming::line_bytes, run.bytes);
    std::memcpy(run.to, run.from, head);
    const std::byte* const lines_from = run.from + head;
    const std::size_t lines = (run.bytes - head) / streaming::line_bytes;
    streaming::store_lines(run.to + head, lines_from, lines,
                           [&](std::size_t at) { streaming::prefetch_to_l1(lines_from, at + ahead); });
    const std::size_t done = head + lines * streaming::line_bytes;
    std::memcpy(run.to + done, run.from + done, run.bytes - done);
  }

  bool streams_;
  std::array<Run, 3> waiting_{};  // pending runs; the cache lines at their ends are being prefetched
  std::size_t turn_ = 0;
};

}  // namespace evenkeel
