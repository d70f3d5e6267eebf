#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/outlier_delay.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel {

/// Interface of the implementations of SampleStream: PlainStream for files and synthetic samples, and
/// ArrivingStream for samples that arrive. See SampleStream for the contracts of functions that have no
/// comment here. Each rank of `readers()` reads a share of every step.
class ReadingStream {
 public:
  ReadingStream(const ReadingStream&) = delete;
  ReadingStream& operator=(const ReadingStream&) = delete;
  virtual ~ReadingStream() = default;

  /// Opens the sources. Collective, called once after all readers have constructed this object.
  virtual void open(const Config& config, std::span<const std::string> profiles) = 0;

  [[nodiscard]] virtual const std::vector<StreamSource>& sources() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t num_samples() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t num_steps() const noexcept = 0;
  [[nodiscard]] virtual RaggedBatch read(std::int64_t step) = 0;
  [[nodiscard]] virtual DelayFigures delay_figures() = 0;
  [[nodiscard]] virtual ArrivalFigures arrival_figures() = 0;
  virtual void describe(ServiceState& state) = 0;
  virtual void publish(std::int64_t version) = 0;
  virtual void report_saved_before(std::int64_t next_step) = 0;
  virtual void stop_waiting() noexcept = 0;
  virtual void resume_waiting() noexcept = 0;

 protected:
  explicit ReadingStream(const Communicator& readers) : readers_(readers) {}
  [[nodiscard]] const Communicator& readers() const noexcept { return readers_; }

 private:
  Communicator readers_;  // the caller's communicator; used to open sources and for fingerprints
};

}  // namespace evenkeel
