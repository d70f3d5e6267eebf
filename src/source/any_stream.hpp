#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/outlier_delay.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel {

/// What a SampleStream does, whose header has the contracts. A PlainStream reads; the room data_ranks has one
/// of which other ranks read the samples.
class AnyStream {
 public:
  AnyStream() = default;
  AnyStream(const AnyStream&) = delete;
  AnyStream& operator=(const AnyStream&) = delete;
  virtual ~AnyStream() = default;

  [[nodiscard]] virtual const std::vector<StreamSource>& sources() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t num_samples() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t num_steps() const noexcept = 0;
  [[nodiscard]] virtual RaggedBatch read(std::int64_t step) = 0;
  [[nodiscard]] virtual DelayFigures delayed() = 0;
  [[nodiscard]] virtual ArrivalFigures arrived() = 0;
  virtual void describe(ServiceState& state) = 0;
  virtual void publish(std::int64_t version) = 0;
  virtual void trained(std::int64_t next_step) = 0;
  virtual void stop_waiting() noexcept = 0;
  virtual void wait_again() noexcept = 0;
};

}  // namespace evenkeel
