#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "data_ranks/data_line.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "source/reading_stream.hpp"

namespace evenkeel {

/// A stream that trainers have asked for, on a data rank: the data ranks read it among themselves, and the
/// first of them tells the trainers of it. Thread-safe but for describe(), during which nothing is read.
class ServedStream {
 public:
  /// Takes its memory. `everyone` are the trainers and then the data ranks.
  ServedStream(const Communicator& everyone, const Config& config);

  /// Collective over everyone, once, before anything else and when all have the memory.
  void open(const Config& config, const DataCall& call, std::int64_t most_steps);
  void describe();
  void tell_delay();
  void tell_arrivals();
  void publish(std::int64_t version);
  void trained(std::int64_t next_step);
  /// Lets nobody wait for samples any longer. From any thread.
  void stop_waiting() noexcept { stream_->stop_waiting(); }
  void wait_again() noexcept { stream_->wait_again(); }

  /// This rank's samples of a step.
  [[nodiscard]] RaggedBatch read(std::int64_t step);

 private:
  Communicator everyone_;
  int first_data_rank_;
  std::mutex mutex_;
  std::unique_ptr<ReadingStream> stream_;
};

}  // namespace evenkeel
