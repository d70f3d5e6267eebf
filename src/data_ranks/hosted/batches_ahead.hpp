#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <variant>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A rank's samples of the next steps, read by a thread before they are asked for. At most `depth` steps are
/// read, or being read, that were not taken. Local: its reader must not communicate.
class BatchesAhead {
 public:
  using Reader = std::function<RaggedBatch(std::int64_t step)>;

  /// Of steps first..end-1. Throws LimitError where no thread can be had.
  BatchesAhead(std::int64_t first, std::int64_t end, std::int64_t depth, Reader read);

  /// The samples of a step, or what its reader threw. Steps are taken in order; any may be left out.
  /// Precondition: first <= step < end.
  [[nodiscard]] RaggedBatch take(std::int64_t step);

 private:
  struct Batch {
    std::int64_t step = 0;
    std::variant<RaggedBatch, std::exception_ptr> content;
  };

  void read_all(const std::stop_token& stop, std::int64_t end);

  std::int64_t next_;
  std::int64_t depth_;
  Reader read_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::exception_ptr end_;  // why no more are read
  std::jthread thread_;     // last, so that it has ended before what it uses goes
};

}  // namespace evenkeel
