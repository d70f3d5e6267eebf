#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "source/reading_stream.hpp"

namespace evenkeel {

/// A stream of samples that arrive in a buffer while the job trains. The first reader forms each step and
/// records it in the buffer. The other readers wait until the step is recorded. Every reader then fetches its
/// own share of the step's samples.
class ArrivingStream final : public ReadingStream {
 public:
  ArrivingStream(const Communicator& readers, const Config& config);
  ~ArrivingStream() override;
  void open(const Config& config, std::span<const std::string> profiles) override;

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept override;
  [[nodiscard]] std::int64_t num_samples() const noexcept override { return 0; }
  [[nodiscard]] std::int64_t num_steps() const noexcept override;
  [[nodiscard]] RaggedBatch read(std::int64_t step) override;
  [[nodiscard]] DelayFigures delay_figures() override { return {}; }
  [[nodiscard]] ArrivalFigures arrival_figures() override;
  void describe(ServiceState& state) override;
  void publish(std::int64_t version) override;
  void report_saved_before(std::int64_t next_step) override;
  void stop_waiting() noexcept override;
  void resume_waiting() noexcept override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
