#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/batch_schedule.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/source/sample_source.hpp"

namespace evenkeel {

/// A job's samples in the order in which its steps take them: the configured source, cut into global batches,
/// epoch by epoch, shuffled where that is asked for. Which samples a step holds, and their order, is a pure
/// function of the configuration's `source` and `batch`, the content of the source and the number of the
/// step: no mesh, rank count or prefetch depth changes it.
class SampleStream {
 public:
  /// Collective over `comm`: opens the source. Throws the same error on every rank, as open_source() and
  /// BatchSchedule do.
  SampleStream(const boost::mpi::communicator& comm, const Config& config);

  /// Samples that one epoch takes.
  [[nodiscard]] std::int64_t num_samples() const { return source_->num_samples(); }
  [[nodiscard]] std::int64_t num_steps() const noexcept { return schedule_.num_steps(); }
  [[nodiscard]] const SampleSource& source() const noexcept { return *source_; }

  /// What this rank brings to a step: an equal, contiguous share of its samples. Local; called by one thread
  /// at a time, and fastest in the order of steps. Throws as SampleSource::read(). Precondition: 0 <= step <
  /// num_steps().
  [[nodiscard]] RaggedBatch read(std::int64_t step);

  /// Collective over the communicator it was made with: fills in what a state says of sources. Looks at files
  /// the first time it is called; after that it is O(sources), and still collective.
  void describe(ServiceState& state);

 private:
  boost::mpi::communicator comm_;
  std::unique_ptr<SampleSource> source_;
  BatchSchedule schedule_;
  std::vector<SourceFingerprint> fingerprints_;
};

}  // namespace evenkeel
