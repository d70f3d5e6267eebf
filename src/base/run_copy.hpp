#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/streaming.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// Copies runs of bytes to any places, one after the other. All of them are written when it is destroyed, not
/// before.
class RunCopier {
 public:
  /// `total_bytes` is what all runs together will have; it decides whether they stream.
  explicit RunCopier(std::size_t total_bytes) noexcept : streams_(streaming::pays_off(total_bytes)) {}
  RunCopier(const RunCopier&) = delete;
  RunCopier& operator=(const RunCopier&) = delete;
  ~RunCopier() {
    if (!streams_) return;
    for (std::size_t i = 0; i < waiting_.size(); ++i) stream(next());
    streaming::finish();
  }

  /// Precondition: no run overlaps the target of another.
  void operator()(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    if (!streams_) {
      std::memcpy(to, from, bytes);
      return;
    }
    EVENKEEL_PRECONDITION(thorough, !overlaps_waiting({to, from, bytes}), bytes);
    // The lines that a run shares with its neighbours are read before they are written.
    streaming::fetch_to_write(to);
    streaming::fetch_to_write(to + bytes - 1);
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

  /// How far ahead of a copy its source is fetched, past the run's end too: the next one often begins there.
  static constexpr std::size_t ahead = std::size_t{4} << 10;

  [[nodiscard]] static bool overlap(const std::byte* one, std::size_t bytes, const std::byte* other,
                                    std::size_t other_bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(one);
    const auto second = reinterpret_cast<std::uintptr_t>(other);
    return first < second + other_bytes && second < first + bytes;
  }

  /// Whether a run is in the way of one that waits. Others have been written and cannot be asked any more.
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
    const std::size_t head = std::min(streaming::room_in_line(run.to) % streaming::line_bytes, run.bytes);
    std::memcpy(run.to, run.from, head);
    const std::byte* const lines_from = run.from + head;
    const std::size_t lines = (run.bytes - head) / streaming::line_bytes;
    streaming::store_lines(run.to + head, lines_from, lines,
                           [&](std::size_t at) { streaming::fetch_soon(lines_from, at + ahead); });
    const std::size_t done = head + lines * streaming::line_bytes;
    std::memcpy(run.to + done, run.from + done, run.bytes - done);
  }

  bool streams_;
  std::array<Run, 3> waiting_{};  // while the lines at their ends are fetched
  std::size_t turn_ = 0;
};

}  // namespace evenkeel
