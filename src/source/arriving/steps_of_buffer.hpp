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

/// How to reach a buffer, and for how long to try again.
struct BufferAccess {
  std::string url;
  std::string token{};
  std::filesystem::path ca{};
  std::optional<double> patience{};  ///< seconds; unset: forever
  JobPass pass{};                    ///< of a job that has begun
};

/// How a job's steps are formed.
struct FormingRules {
  stream::StreamSettings stream;              ///< the buffer's, and the job's look-ahead
  std::int64_t groups = 1;                    ///< of a step
  PlanSettings plan{};                        ///< of the job's costliest pass
  bool publishes_steps = true;                ///< a version is the number of the step that is being formed
  bool drops_empty = false;                   ///< samples without tokens
  std::optional<std::int64_t> drops_above{};  ///< tokens: longer samples are dropped
};

/// The steps of a job, as one of its ranks gets them from the buffer. One of the ranks that read forms steps;
/// the others wait in the buffer until a step is written down there.
///
/// Local, for one thread. A buffer that cannot be reached is tried again until patience is over. The rank
/// that forms steps sends a waiting note about each wait of 10 seconds.
class StepsOfBuffer {
 public:
  /// `must_stop`, which has to outlive it, ends waiting from another thread.
  StepsOfBuffer(BufferAccess access, const std::atomic<bool>& must_stop);

  /// Sets how lines write fields, as the buffer has told the rank that began.
  void read_as(ToldFormats formats) { formats_ = std::move(formats); }
  /// As JobClient::begin.
  [[nodiscard]] JobBegun begin(std::int64_t samples_per_step, const JobStart& start = {});

  /// The step, once it is formed: by this rank if it has rules for that, unless it was formed before.
  /// Throws EndOfSamples if it never will be, IoError when patience is over, and InputError for a step that
  /// is not the next one or whose samples are freed, with the error of the rank that forms steps, or once
  /// another job has begun; and ConfigError if the buffer has other rules than when the job began.
  [[nodiscard]] stream::FormedStep step(std::int64_t number, const FormingRules* rules);

  /// Samples of steps that came from here, in this order. Their ids are their arrival numbers. Throws
  /// InputError if one is damaged.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> arrivals);

  /// The buffer's figures, or the latest known ones if it cannot be reached now; without those of
  /// add_steps_to().
  [[nodiscard]] ArrivalFigures figures();
  /// Adds the staleness of samples in steps that came from here, and the seconds until these were formed.
  /// From any thread.
  void add_steps_to(ArrivalFigures& figures) const;

  void publish(std::int64_t version);
  /// Tries for a moment. Returns whether the buffer was reached.
  [[nodiscard]] bool trained(std::int64_t step);
  /// Throws IoError when patience is over, and EndOfSamples if it must stop.
  void wait_until_told_that_trained(std::int64_t step);

 private:
  [[nodiscard]] Patience patience(bool tells) const { return {access_.patience, access_.url, tells}; }
  template <typename Call>
  auto until_reached(Patience& patience, Call&& call);
  [[nodiscard]] stream::FormedStep form(std::int64_t number, const FormingRules& rules);
  [[nodiscard]] stream::FormedStep wait_for(std::int64_t number);
  [[nodiscard]] JobStep look_for(std::int64_t number, std::chrono::seconds time, Patience& patience);
  [[nodiscard]] std::optional<stream::FormedStep> try_to_form(std::int64_t number, const FormingRules& rules,
                                                              const JobWaiting& waiting, Patience& patience);
  [[nodiscard]] bool drop_filtered(const FormingRules& rules, const JobWaiting& waiting, Patience& patience);
  void give_up(std::int64_t number, const std::string& why) noexcept;
  void note(const stream::FormedStep& step, double waited);

  BufferAccess access_;
  const std::atomic<bool>& must_stop_;
  JobClient client_;
  ToldFormats formats_;
  std::optional<JsonlSchema> schema_;      // once a step had samples
  std::optional<ArrivalFigures> figures_;  // the latest known ones
  bool are_figures_current_ = true;
  mutable std::mutex steps_mutex_;  // guards the next two
  std::map<std::int64_t, std::int64_t> staleness_;
  double waited_ = 0;

  int changes_ = 0;  // of waiting groups, while a step was being formed of them
};

}  // namespace evenkeel
