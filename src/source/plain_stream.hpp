#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "source/reading_stream.hpp"

namespace evenkeel {

/// A stream whose samples are known before the first step: samples from files, or synthetic samples.
class PlainStream final : public ReadingStream {
 public:
  PlainStream(const Communicator& readers, const Config& config);
  ~PlainStream() override;
  void open(const Config& config, std::span<const std::string> profiles) override;

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept override;
  [[nodiscard]] std::int64_t num_samples() const noexcept override;
  [[nodiscard]] std::int64_t num_steps() const noexcept override;
  [[nodiscard]] RaggedBatch read(std::int64_t step) override;
  [[nodiscard]] DelayFigures delay_figures() override;
  [[nodiscard]] ArrivalFigures arrival_figures() override { return {}; }
  void describe(ServiceState& state) override;
  void publish(std::int64_t version) override;
  void report_saved_before(std::int64_t /*next_step*/) override {}
  void stop_waiting() noexcept override {}
  void resume_waiting() noexcept override {}

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
