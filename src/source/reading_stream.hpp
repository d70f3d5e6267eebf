#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "source/any_stream.hpp"

namespace evenkeel {

/// A stream of ranks that each read a share of it: the trainers, or data ranks for them. What is collective,
/// is over the ranks that read.
class ReadingStream : public AnyStream {
 public:
  /// Takes its memory, which a rank may lack before all ranks begin: of files and made-up samples, or of
  /// samples that arrive. `readers` share the samples; the job has `num_ranks`, these too. Local.
  [[nodiscard]] static std::unique_ptr<ReadingStream> make(const Communicator& readers, int num_ranks,
                                                           const Config& config);

  /// Collective, once, when all readers have the memory.
  virtual void open(const Config& config, std::span<const std::string> profiles) = 0;
  /// Has it end after so many steps, if not before.
  virtual void end_at(std::int64_t most_steps) noexcept = 0;

  /// describe() in two parts. The first is collective, and looks at files the first time.
  virtual void take_fingerprints() = 0;
  virtual void tell_fingerprints(ServiceState& state) const = 0;
  void describe(ServiceState& state) final;

 protected:
  explicit ReadingStream(const Communicator& readers) : readers_(readers) {}
  [[nodiscard]] const Communicator& readers() const noexcept { return readers_; }

 private:
  Communicator readers_;  // the caller's: used while sources are opened, and for fingerprints
};

/// Collective over `comm`, all of whose ranks read, as SampleStream's constructor.
[[nodiscard]] std::unique_ptr<ReadingStream> open_stream(const Communicator& comm, const Config& config,
                                                         std::span<const std::string> profiles,
                                                         std::int64_t most_steps);

}  // namespace evenkeel
