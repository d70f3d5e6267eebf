#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/outlier_delay.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/source/sample_source.hpp"

namespace evenkeel {

class ReadingStream;

/// One of the sources of a stream, with the effect of the filter on it.
struct StreamSource {
  std::string name;             ///< name in the configuration; empty for a single source without a name
  std::string path;             ///< as configured
  FilterCounts counts;          ///< counts for one epoch of the source
  std::string ignored_content;  ///< see SampleSource, here and below
  std::string undecided_fields;
};

/// A job's samples in the order in which its steps take them: the configured sources, filtered by length,
/// mixed by weight, shuffled in each epoch if configured, and divided into global batches. The samples of a
/// step and their order are a pure function of the configuration's `source`, `sources` and `batch`, the
/// content of the sources, and the number of the step: they do not depend on the mesh, the number of ranks or
/// the prefetch depth. If outliers are delayed (batch.delay_outliers), they also depend on the
/// configuration's own `balance`, `micro_batch` and `pack`, from which the gain of the delay is computed.
///
/// A sample's id is its number in its source plus the numbers of samples of the sources before it (by name);
/// pieces of a split sample share it. Groups of different sources are different groups.
class SampleStream {
 public:
  /// The result of num_steps() for a stream that ends at an unknown time.
  static constexpr std::int64_t unknown_num_steps = std::numeric_limits<std::int64_t>::max();

  /// Collective over `comm`: opens the sources. `profiles` are the passes that will be made over each step,
  /// whose caps determine which samples are too long; if empty, there is one pass with the job's own
  /// settings. Throws the same error on every rank: the errors of open_source() and BatchSchedule,
  /// ConfigError if filtered samples could still exceed a cap, and InputError if the filter does not leave
  /// any samples of a source.
  SampleStream(const Communicator& comm, const Config& config, std::span<const std::string> profiles = {});
  SampleStream(SampleStream&&) noexcept;
  SampleStream& operator=(SampleStream&&) noexcept;
  ~SampleStream();

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept;
  /// Returns the number of samples in one epoch of the job; 0 if samples arrive in a stream.
  [[nodiscard]] std::int64_t num_samples() const noexcept;
  /// Returns unknown_num_steps if it is unknown when samples will cease to arrive.
  [[nodiscard]] std::int64_t num_steps() const noexcept;

  /// Returns this rank's samples of a step: an equal, contiguous share. Local; called by one thread at a
  /// time, and fastest in the order of steps. Throws the errors of SampleSource::read(), and InputError if
  /// sources have different fields. Precondition: 0 <= step < num_steps().
  ///
  /// With source.kind: stream, the step is formed now unless it already was, and the call waits until enough
  /// samples are available; steps are read in order, starting with the one at which the job resumes. Throws
  /// EndOfSamples if no more samples will arrive and all are in earlier steps, and IoError after waiting for
  /// stream.patience.
  [[nodiscard]] RaggedBatch read(std::int64_t step);

  /// Returns figures about the delay of outliers in the steps that were read here; all zero without a delay.
  /// Local. Must not be called while another thread reads.
  [[nodiscard]] DelayFigures delay_figures();

  // The functions below are for samples that arrive (source.kind: stream).

  /// Collective over the stream's communicator: reports that the policy now has this version. Call this
  /// before producers get its weights, since samples of later versions are refused. Waits for the buffer,
  /// like read(). Throws ConfigError on every rank unless stream.version is trainer.
  void publish(std::int64_t version);
  /// Collective over the stream's communicator: reports that the job's state before `next_step` is saved, or
  /// will never be needed, so samples of earlier steps can be freed. Best effort if the buffer cannot be
  /// reached, since a later call also covers these steps; once samples have ended, waits for the buffer, like
  /// read(). Has no effect on other sources.
  void report_saved_before(std::int64_t next_step);
  /// Makes read() stop waiting: it throws EndOfSamples within a few seconds. Local; may be called from any
  /// thread. Use it in a trainer that ends before its samples do.
  void stop_waiting() noexcept;
  /// Undoes stop_waiting(). Call it after the stopped Steps have ended, before other Steps use the same
  /// stream. Local.
  void resume_waiting() noexcept;

  /// Returns the numbers of samples that have arrived, were trained and were dropped, equal on all ranks.
  /// Collective over the stream's communicator; may be called while another thread reads. If the buffer
  /// cannot be reached, the first call waits for it, like read(), and later calls return the latest figures.
  [[nodiscard]] ArrivalFigures arrival_figures();

  /// Collective over the stream's communicator: fills in the sources of a state. The first call reads files;
  /// later calls take O(sources) but are still collective.
  void describe(ServiceState& state);

 private:
  std::unique_ptr<ReadingStream> stream_;
};

}  // namespace evenkeel
