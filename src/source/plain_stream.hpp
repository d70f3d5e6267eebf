#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "source/any_stream.hpp"

namespace evenkeel {

/// A stream of ranks that each read a share of it.
class PlainStream final : public AnyStream {
 public:
  /// Collective over `comm`, as SampleStream's constructor.
  [[nodiscard]] static std::unique_ptr<PlainStream> make(const Communicator& comm, const Config& config,
                                                         std::span<const std::string> profiles,
                                                         std::int64_t most_steps);

  /// Takes its memory, which a rank may lack before all ranks begin. `readers` share the samples; the job has
  /// `num_ranks`, these too.
  PlainStream(const Communicator& readers, int num_ranks, const Config& config);
  ~PlainStream() override;
  /// Collective over the readers, once, when all of them have the memory.
  void open(const Config& config, std::span<const std::string> profiles);
  /// Has it end after so many steps, if not before.
  void end_at(std::int64_t most_steps) noexcept;

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept override;
  [[nodiscard]] std::int64_t num_samples() const noexcept override;
  [[nodiscard]] std::int64_t num_steps() const noexcept override;
  [[nodiscard]] RaggedBatch read(std::int64_t step) override;
  [[nodiscard]] DelayFigures delayed() override;
  void describe(ServiceState& state) override;

  /// describe() in two parts. The first is collective over the readers, and looks at files the first time.
  void take_fingerprints();
  void tell_fingerprints(ServiceState& state) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
