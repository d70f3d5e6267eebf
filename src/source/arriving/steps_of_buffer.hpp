#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
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
#include "stream/ledger.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

/// How a buffer is reached, and for how long it is tried again.
struct BufferAccess {
  std::string url;
  std::string token{};
  std::filesystem::path ca{};
  std::optional<double> patience{};  ///< seconds; none: forever
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

/// Where a rank gets its steps from: one of the ranks that read forms them, and all wait in the buffer until
/// they are written down there. Local, for one thread. A buffer that cannot be reached is tried again until
/// patience is over; what takes 10 seconds is told as a waiting note, by the rank that forms.
class StepsOfBuffer {
 public:
  /// `must_stop`, which has to outlive it, ends waiting from another thread.
  StepsOfBuffer(const BufferAccess& access, const std::atomic<bool>& must_stop);

  /// How lines write fields: what the buffer has told the rank that began.
  void read_as(ToldFormats formats) { formats_ = std::move(formats); }
  /// Says how many samples a step has, and learns the buffer's rules.
  [[nodiscard]] JobBegun begin(std::int64_t samples_per_step);

  /// The step, once it is formed: by this rank, where it has rules for that, unless it was formed before.
  /// Throws EndOfSamples if it never will be, IoError when patience is over, and InputError for a step that
  /// is not the next one or whose samples are freed; or what the rank that forms steps has told.
  [[nodiscard]] stream::FormedStep step(std::int64_t number, const FormingRules* rules);

  /// These samples, in this order: ids are their arrival numbers. Throws InputError where one is damaged.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> arrivals);
  /// The fields that samples have, input_ids aside, once a step was formed.
  [[nodiscard]] const JsonlSchema& schema();

  /// What the buffer says of its samples, or said last where it cannot be reached now. Without what follows.
  [[nodiscard]] ArrivalFigures figures();
  /// Adds, of the steps that came from here, samples by the versions that they were behind, and the seconds
  /// until they were formed. From any thread.
  void add_steps_to(ArrivalFigures& figures) const;

  void publish(std::int64_t version);
  /// Tries for a moment. Whether the buffer was reached.
  [[nodiscard]] bool trained(std::int64_t step);
  /// Throws IoError when patience is over, and EndOfSamples if it must stop.
  void wait_until_told_that_trained(std::int64_t step);

 private:
  class Patience;
  template <typename Call>
  auto until_reached(Patience& patience, Call&& call);
  [[nodiscard]] stream::FormedStep form(std::int64_t number, const FormingRules& rules);
  [[nodiscard]] stream::FormedStep wait_for(std::int64_t number);
  [[nodiscard]] std::optional<stream::FormedStep> try_to_form(std::int64_t number, const FormingRules& rules,
                                                              const JobWaiting& waiting, Patience& patience);
  [[nodiscard]] bool drop_what_is_filtered(const FormingRules& rules, const JobWaiting& waiting,
                                           Patience& patience);
  void give_up(std::int64_t number, const std::string& why) noexcept;
  void require_going_on() const;

  BufferAccess access_;
  const std::atomic<bool>& must_stop_;
  JobClient client_;
  ToldFormats formats_;
  std::optional<JsonlSchema> schema_;
  std::optional<ArrivalFigures> figures_;  // as the buffer said last
  bool are_figures_known_ = true;          // as they are now
  mutable std::mutex steps_mutex_;         // of what follows
  std::map<std::int64_t, std::int64_t> staleness_;
  double waited_ = 0;

  int changes_ = 0;  // of what waits, while a step was being formed of it
};

}  // namespace evenkeel
