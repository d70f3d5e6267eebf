#pragma once

#include <cstdint>
#include <mutex>

#include "data_ranks/data_line.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "source/plain_stream.hpp"

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

  /// This rank's samples of a step.
  [[nodiscard]] RaggedBatch read(std::int64_t step);

 private:
  Communicator everyone_;
  int first_data_rank_;
  std::mutex mutex_;
  PlainStream stream_;
};

}  // namespace evenkeel
