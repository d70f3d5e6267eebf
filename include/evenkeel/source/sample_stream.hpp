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

/// What a stream takes of one of its sources.
struct StreamSource {
  std::string name;      ///< in the configuration; empty for a single source without a name
  std::string path;      ///< as configured
  FilterCounts counts;   ///< of one epoch of the source
  std::string left_out;  ///< see SampleSource; so below
  std::string undecided;
};

/// A job's samples in the order in which its steps take them: the configured sources, filtered by length,
/// mixed by weight, shuffled in each epoch if configured, and divided into global batches. Which samples a
/// step has, and their order, is a pure function of the configuration's `source`, `sources` and `batch`, the
/// content of the sources and the number of the step: the mesh, the number of ranks and the prefetch depth do
/// not change it. If outliers are delayed (batch.delay_outliers), it also depends on the configuration's own
/// `balance`, `micro_batch` and `pack`, from which the gain of the delay is computed.
///
/// A sample's id is its number in its source plus the numbers of samples of the sources before it (by name);
/// pieces of a split sample share it. Groups of different sources are different groups.
class SampleStream {
 public:
  /// The number of steps of a stream that ends at an unknown time.
  static constexpr std::int64_t all_steps = std::numeric_limits<std::int64_t>::max();

  /// Collective over `comm`: opens the sources. `profiles` are the passes that will be made over each step,
  /// whose caps say what is too long; none: one pass with the job's own settings. Throws the same error on
  /// every rank, as open_source() and BatchSchedule do; ConfigError if filtered samples could still exceed a
  /// cap; InputError if a filter leaves nothing of a source.
  SampleStream(const Communicator& comm, const Config& config, std::span<const std::string> profiles = {});
  SampleStream(SampleStream&&) noexcept;
  SampleStream& operator=(SampleStream&&) noexcept;
  ~SampleStream();

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept;
  /// The number of samples in one epoch of the job; 0 of a stream that samples arrive in.
  [[nodiscard]] std::int64_t num_samples() const noexcept;
  /// all_steps if nobody knows when samples cease to arrive.
  [[nodiscard]] std::int64_t num_steps() const noexcept;

  /// What this rank brings to a step: an equal, contiguous share of its samples. Local; called by one thread
  /// at a time, and fastest in the order of steps. Throws as SampleSource::read(), and InputError if sources
  /// have different fields. Precondition: 0 <= step < num_steps().
  ///
  /// With source.kind: stream, the step is formed now if it was not before, and the call waits until enough
  /// samples are there; steps are read in order, from the one on that the job resumes with. Throws
  /// EndOfSamples when no more will come and all are in earlier steps, and IoError when stream.patience is
  /// over.
  [[nodiscard]] RaggedBatch read(std::int64_t step);

  /// Figures about the delay of outliers in the steps that were read here; all zero without a delay. Local.
  /// Not while another thread reads.
  [[nodiscard]] DelayFigures delayed();

  // The following is about samples that arrive (source.kind: stream).

  /// Collective over the stream's communicator: the policy now has this version. Call it before producers get
  /// its weights, since samples of later versions are refused. Waits for the buffer, as read() does. Throws
  /// ConfigError on every rank unless stream.version is trainer.
  void publish(std::int64_t version);
  /// Collective over the stream's communicator: the job's state before `next_step` is saved, or will never
  /// be needed, so that samples of earlier steps can be freed. No more than a hint to a buffer that cannot be
  /// reached: a later call says the same of these steps, too. Has no effect on other sources.
  void trained(std::int64_t next_step);
  /// Lets read() wait no longer: it throws EndOfSamples, within a few seconds. Local, from any thread. For a
  /// trainer that ends before its samples do.
  void stop_waiting() noexcept;
  /// Undoes stop_waiting(), once what it stopped has ended: for other Steps of the same stream.
  /// Local.
  void wait_again() noexcept;

  /// Collective over the stream's communicator, also while another thread reads: what became of the samples,
  /// equal on all ranks. Of a buffer that cannot be reached it is what that said last.
  [[nodiscard]] ArrivalFigures arrived();

  /// Collective over the stream's communicator: fills in the sources of a state. Reads files the first time
  /// it is called; later calls are O(sources), and still collective.
  void describe(ServiceState& state);

 private:
  std::unique_ptr<ReadingStream> stream_;
};

}  // namespace evenkeel
