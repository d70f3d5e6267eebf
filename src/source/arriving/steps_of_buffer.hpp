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

/// The address of a buffer, the credentials for it, and the time limit for retries.
struct BufferAccess {
  std::string url;
  std::string token{};
  std::filesystem::path ca{};
  std::optional<double> patience{};  ///< time limit for retries in seconds; unlimited if unset
  JobPass pass{};                    ///< identity of the job; empty before the job has begun
};

/// Rules by which a job forms steps.
struct FormingRules {
  stream::StreamSettings stream;  ///< the buffer's settings, with the job's look_ahead
  std::int64_t groups = 1;        ///< number of groups per step
  PlanSettings plan{};            ///< settings of the job's costliest pass
  bool publishes_steps = true;    ///< whether to publish the number of each step as its policy version
  bool drops_empty = false;       ///< whether to drop samples without tokens
  /// Maximum number of tokens of a sample that is not dropped; nullopt to keep samples of any length.
  std::optional<std::int64_t> drops_above{};
};

/// Gets the steps of a job from the buffer, on one reader. One of the job's readers forms steps; the other
/// readers wait until a step is recorded in the buffer.
///
/// Local; not thread-safe. If the buffer cannot be reached, calls retry for the configured time
/// (BufferAccess::patience). The reader that forms steps reports what it is waiting for (send_waiting_note())
/// after 10 seconds without enough samples, or after the buffer has been unreachable for one second.
class StepsOfBuffer {
 public:
  /// Another thread can end waiting by setting `must_stop`, which must outlive this object.
  StepsOfBuffer(BufferAccess access, const std::atomic<bool>& must_stop);

  /// Sets the declared formats of fields, which the buffer reported to the first reader.
  void set_formats(DeclaredFormats formats) { formats_ = std::move(formats); }
  /// Calls JobClient::begin(), with retries.
  [[nodiscard]] JobStartReply begin(std::int64_t samples_per_step, const JobStart& start = {});

  /// Returns the step. If it is not formed yet, waits for enough samples and forms it if `rules` is not null;
  /// otherwise waits until another reader has formed it. Throws
  /// - EndOfSamples if the step will never be formed, or if `must_stop` is set;
  /// - IoError if the buffer has been unreachable, or no samples have arrived, for the configured time;
  /// - InputError if the step is not the next one, if its samples were freed, if the rank that forms steps
  ///   failed (with that rank's error), or if another job has begun;
  /// - ConfigError if the buffer's rules have changed since the job began.
  [[nodiscard]] stream::FormedStep step(std::int64_t number, const FormingRules* rules);

  /// Fetches samples of steps that step() returned, by arrival number and in this order. The arrival numbers
  /// become the ids of the samples. Throws InputError if a sample is damaged.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> arrivals);

  /// Returns the buffer's figures, except those that set_step_figures() fills in. If the buffer cannot be
  /// reached now, returns the latest known figures; only the first call retries for the configured time.
  [[nodiscard]] ArrivalFigures figures();
  /// Sets the figures about the steps that step() returned: the staleness of their samples, and the seconds
  /// spent waiting for them. Thread-safe.
  void set_step_figures(ArrivalFigures& figures) const;

  /// Sets the policy version. See Buffer::publish().
  void publish(std::int64_t version);
  /// Reports to the buffer that a step was trained, with a few quick attempts. Returns whether the buffer was
  /// reached.
  [[nodiscard]] bool report_trained(std::int64_t step);
  /// Reports to the buffer that a step was trained. Throws IoError if the buffer has been unreachable for the
  /// configured time, and EndOfSamples if `must_stop` is set.
  void report_trained_until_reached(std::int64_t step);

 private:
  [[nodiscard]] Patience patience(bool sends_notes) const {
    return {access_.patience, access_.url, sends_notes};
  }
  template <typename Call>
  auto retry_until_reached(Patience& patience, Call&& call);
  [[nodiscard]] stream::FormedStep form(std::int64_t number, const FormingRules& rules);
  [[nodiscard]] stream::FormedStep wait_for(std::int64_t number);
  [[nodiscard]] JobStep poll_step(std::int64_t number, std::chrono::seconds time, Patience& patience);
  [[nodiscard]] std::optional<stream::FormedStep> try_form_step(std::int64_t number,
                                                                const FormingRules& rules,
                                                                const JobWaitingGroups& waiting,
                                                                Patience& patience);
  [[nodiscard]] bool drop_filtered_samples(const FormingRules& rules, const JobWaitingGroups& waiting,
                                           Patience& patience);
  void abandon_step(std::int64_t number, const std::string& why) noexcept;
  void record_step_figures(const stream::FormedStep& step, double waited);

  BufferAccess access_;
  const std::atomic<bool>& must_stop_;
  JobClient client_;
  DeclaredFormats formats_;
  std::optional<JsonlSchema> schema_;      // schema of the buffer's samples; nullopt until read() is called
  std::optional<ArrivalFigures> figures_;  // latest figures that the buffer has reported
  bool are_figures_current_ = true;
  mutable std::mutex steps_mutex_;  // guards `staleness_` and `waited_`
  std::map<std::int64_t, std::int64_t> staleness_;
  double waited_ = 0;

  int changes_ = 0;  // number of attempts to form the next step that failed because waiting groups changed
};

}  // namespace evenkeel
