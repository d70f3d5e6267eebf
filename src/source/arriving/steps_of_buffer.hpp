#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "buffer/job_client.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/settings.hpp"
#include "io/jsonl/schema.hpp"
#include "source/arriving/patience.hpp"
#include "stream/ledger.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

/// The address of a buffer, and the time to keep retrying.
struct BufferAccess {
  std::string url;
  std::string token{};
  std::filesystem::path ca{};
  std::optional<double> patience{};  ///< time limit in seconds; unlimited if unset
  JobPass pass{};                    ///< the pass of a job that has begun
};

/// Rules by which a job forms steps.
struct FormingRules {
  stream::StreamSettings stream;  ///< the buffer's settings, with the job's look_ahead
  std::int64_t groups = 1;        ///< number of groups per step
  PlanSettings plan{};            ///< settings of the job's costliest pass
  bool publishes_steps = true;    ///< whether to publish each step's number as the version before forming it
  bool drops_empty = false;       ///< whether to drop samples without tokens
  /// Drop samples with more tokens than this; nullopt to keep all.
  std::optional<std::int64_t> drops_above{};
};

/// The steps of a job, as one of its readers gets them from the buffer. One reader forms steps; the others
/// wait until a step is recorded in the buffer.
///
/// Local; not thread-safe. If the buffer cannot be reached, calls retry for the configured time
/// (BufferAccess::patience). The reader that forms steps sends waiting notes after 10 seconds without enough
/// samples, or after the buffer has been unreachable for one second.
class StepsOfBuffer {
 public:
  /// `must_stop` ends waiting from another thread; it must outlive this object.
  StepsOfBuffer(BufferAccess access, const std::atomic<bool>& must_stop);

  /// Sets the formats of lines, which the buffer reported to the first reader.
  void set_formats(DeclaredFormats formats) { formats_ = std::move(formats); }
  /// Calls JobClient::begin().
  [[nodiscard]] JobStartReply begin(std::int64_t samples_per_step, const JobStart& start = {});

  /// Returns the step. If it is not formed yet, waits for enough samples and forms it if `rules` is not null;
  /// otherwise waits until another reader has formed it. Throws EndOfSamples if it will never be formed;
  /// IoError if retrying takes too long; InputError if it is not the next step, its samples were freed, the
  /// rank that forms steps failed (with that rank's error), or another job has begun; and ConfigError if the
  /// buffer's rules have changed since the job began.
  [[nodiscard]] stream::FormedStep step(std::int64_t number, const FormingRules* rules);

  /// Returns samples of steps that step() returned, in this order. Their ids are their arrival numbers.
  /// Throws InputError if one is damaged.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> arrivals);

  /// Returns the buffer's figures, except those that add_steps_to() fills in. If the buffer cannot be reached
  /// now, returns the latest known figures; only the first call retries for the configured time.
  [[nodiscard]] ArrivalFigures figures();
  /// Sets the figures about the steps that step() returned: the staleness of their samples, and the seconds
  /// spent waiting for them. Thread-safe.
  void add_steps_to(ArrivalFigures& figures) const;

  /// Sets the policy version. See Buffer::publish().
  void publish(std::int64_t version);
  /// Reports a trained step with a few quick attempts. Returns whether the buffer was reached.
  [[nodiscard]] bool report_trained(std::int64_t step);
  /// Reports a trained step. Throws IoError if retrying takes too long, and EndOfSamples if it was told to
  /// stop.
  void report_trained_until_reached(std::int64_t step);

 private:
  [[nodiscard]] Patience patience(bool tells) const { return {access_.patience, access_.url, tells}; }
  template <typename Call>
  auto retry_until_reached(Patience& patience, Call&& call);
  [[nodiscard]] stream::FormedStep form(std::int64_t number, const FormingRules& rules);
  [[nodiscard]] stream::FormedStep wait_for(std::int64_t number);
  [[nodiscard]] JobStep poll_step(std::int64_t number, std::chrono::seconds time, Patience& patience);
  [[nodiscard]] std::optional<stream::FormedStep> try_form_step(std::int64_t number,
                                                                const FormingRules& rules,
                                                                const JobWaiting& waiting,
                                                                Patience& patience);
  [[nodiscard]] bool drop_filtered(const FormingRules& rules, const JobWaiting& waiting, Patience& patience);
  void abandon_step(std::int64_t number, const std::string& why) noexcept;
  void record_formed(const stream::FormedStep& step, double waited);

  BufferAccess access_;
  const std::atomic<bool>& must_stop_;
  JobClient client_;
  DeclaredFormats formats_;
  std::optional<JsonlSchema> schema_;      // set when the first samples are read
  std::optional<ArrivalFigures> figures_;  // latest known figures
  bool are_figures_current_ = true;
  mutable std::mutex steps_mutex_;  // guards the next two members
  std::map<std::int64_t, std::int64_t> staleness_;
  double waited_ = 0;

  int changes_ = 0;  // number of consecutive steps that were refused because waiting groups had changed
};

}  // namespace evenkeel
