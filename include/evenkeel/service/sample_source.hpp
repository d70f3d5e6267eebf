#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <memory>
#include <span>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/config.hpp"

namespace evenkeel {

/// Where samples come from: a numbered list of them that every rank can read any part of.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  /// Samples in all, equal on every rank.
  [[nodiscard]] virtual std::int64_t num_samples() const = 0;

  /// The samples at these positions (0-based), in this order. Local: each rank reads its own share and
  /// nothing else. Throws InputError or IoError that names the place.
  [[nodiscard]] virtual RaggedBatch read(std::span<const std::int64_t> positions) const = 0;
};

/// Collective over `comm`: opens the source a configuration names. A JSONL file is scanned in byte ranges,
/// one a rank, which finds its lines, its fields and any malformed line before the first step. Throws the
/// same error on every rank: ConfigError too when the kind is not set, `embedded`, or ranks give different
/// sources.
[[nodiscard]] std::unique_ptr<SampleSource> open_source(const boost::mpi::communicator& comm,
                                                        const SourceConfig& config);

}  // namespace evenkeel
