#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data_ranks/data_line.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "source/any_stream.hpp"

namespace evenkeel {

/// A trainer's stream, which data ranks read.
class CalledStream final : public AnyStream {
 public:
  /// Collective over `everyone`, the trainers and then the data ranks, as SampleStream's constructor.
  [[nodiscard]] static std::unique_ptr<CalledStream> make(const Communicator& everyone,
                                                          std::span<const std::string> profiles,
                                                          std::int64_t most_steps);
  explicit CalledStream(const Communicator& everyone) : everyone_(everyone) {}

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept override { return sources_; }
  [[nodiscard]] std::int64_t num_samples() const noexcept override { return num_samples_; }
  [[nodiscard]] std::int64_t num_steps() const noexcept override { return num_steps_; }
  [[nodiscard]] RaggedBatch read(std::int64_t /*step*/) override { return {}; }
  [[nodiscard]] DelayFigures delayed() override;
  void describe(ServiceState& state) override;
  [[nodiscard]] ArrivalFigures arrived() override;
  void publish(std::int64_t version) override;
  void trained(std::int64_t next_step) override;
  void stop_waiting() noexcept override {}  // the data ranks wait
  void wait_again() noexcept override {}

 private:
  void tell(DataCallKind kind, std::int64_t number);
  void require_newest(std::string_view what) const;

  Communicator everyone_;
  int first_data_rank_ = 0;
  std::uint64_t number_ = 0;  // among the streams that data ranks have opened
  std::vector<StreamSource> sources_;
  std::int64_t num_samples_ = 0;
  std::int64_t num_steps_ = 0;
};

}  // namespace evenkeel
