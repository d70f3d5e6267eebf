#pragma once

#include "streaming.hpp"

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
    stream_waiting({});
    streaming::finish();
  }

  /// Precondition: no run overlaps the target of another.
  void operator()(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    if (!streams_) {
      std::memcpy(to, from, bytes);
      return;
    }
    stream_waiting({from, bytes});
    to_ = to;
    from_ = {from, bytes};
  }

 private:
  void stream_waiting(std::span<const std::byte> next) noexcept {
    if (from_.empty()) return;
    const std::size_t head = std::min(streaming::room_in_line(to_) % streaming::line_bytes, from_.size());
    std::memcpy(to_, from_.data(), head);
    const std::size_t done = head + streaming::store_lines(to_ + head, from_.subspan(head), next);
    std::memcpy(to_ + done, from_.data() + done, from_.size() - done);
  }

  bool streams_;
  // The run that waits until the one after it is known, so that that one's source can be fetched meanwhile.
  std::byte* to_ = nullptr;
  std::span<const std::byte> from_;
};

}  // namespace evenkeel
