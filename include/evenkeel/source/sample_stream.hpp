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

class AnyStream;

/// What a stream takes of one of its sources.
struct StreamSource {
  std::string name;      ///< in the configuration; empty where there is one source without a name
  std::string path;      ///< as configured
  FilterCounts counts;   ///< of one epoch of the source
  std::string left_out;  ///< see SampleSource; so below
  std::string undecided;
};

/// A job's samples in the order in which its steps take them: the configured sources, filtered by length,
/// mixed by weight, shuffled epoch by epoch where that is asked for, and cut into global batches. Which
/// samples a step holds, and their order, is a pure function of the configuration's `source`, `sources` and
/// `batch`, the content of the sources and the number of the step: no mesh, rank count or prefetch depth
/// changes it. Where outliers are delayed (batch.delay_outliers) it follows from the configuration's own
/// `balance`, `micro_batch` and `pack`, too, by which it is reckoned what that gains.
///
/// A sample's id is its number in its source, with those of the sources before it (by name) added; pieces of
/// a split sample share it. Groups of different sources are different groups.
class SampleStream {
 public:
  static constexpr std::int64_t all_steps = std::numeric_limits<std::int64_t>::max();

  /// Collective over `comm`: opens the sources. `profiles` are the passes that will be made over each step,
  /// whose caps say what is too long; none: one pass by the job's own settings. The stream ends after
  /// `most_steps`, if not before. Throws the same error on every rank, as open_source() and BatchSchedule do;
  /// ConfigError where filtered samples could still break a cap; InputError where a filter leaves nothing of
  /// a source.
  SampleStream(const Communicator& comm, const Config& config, std::span<const std::string> profiles = {},
               std::int64_t most_steps = all_steps);
  SampleStream(SampleStream&&) noexcept;
  SampleStream& operator=(SampleStream&&) noexcept;
  ~SampleStream();

  [[nodiscard]] const std::vector<StreamSource>& sources() const noexcept;
  /// Samples that one epoch of the job takes.
  [[nodiscard]] std::int64_t num_samples() const noexcept;
  [[nodiscard]] std::int64_t num_steps() const noexcept;

  /// What this rank brings to a step: an equal, contiguous share of its samples; nothing where data ranks
  /// read (see serve()). Local; called by one thread at a time, and fastest in the order of steps. Throws as
  /// SampleSource::read(), and InputError where sources have different fields. Precondition: 0 <= step <
  /// num_steps().
  [[nodiscard]] RaggedBatch read(std::int64_t step);

  /// What the delay of outliers did to the steps that were read here, or by data ranks; nothing where none
  /// waits. With data ranks collective over the communicator it was made with, and equal on all ranks; else
  /// local. Not while another thread reads. Throws InputError on every trainer as describe().
  [[nodiscard]] DelayFigures delayed();

  /// Collective over the communicator it was made with: fills in what a state says of sources. Looks at files
  /// the first time it is called; after that it is O(sources), and still collective. Data ranks know the
  /// newest stream only: throws InputError on every trainer for one of those before it.
  void describe(ServiceState& state);

 private:
  std::unique_ptr<AnyStream> stream_;
};

}  // namespace evenkeel
