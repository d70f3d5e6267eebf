#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "buffer/job_client.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/settings.hpp"
#include "io/jsonl/schema.hpp"
#include "source/arriving/patience.hpp"
#include "stream/joint_steps.hpp"
#include "stream/ledger.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

/// How buffers are reached, and for how long they are tried again.
struct BufferAccess {
  std::vector<std::string> urls;  ///< one at least
  std::string token{};
  std::filesystem::path ca{};
  std::optional<double> patience{};  ///< seconds; none: forever
};

/// How a job's steps are formed.
struct FormingRules {
  stream::StreamSettings stream;              ///< the buffers', and the job's look-ahead
  std::int64_t groups = 1;                    ///< of a step
  PlanSettings plan{};                        ///< of the job's costliest pass
  bool publishes_steps = true;                ///< a version is the number of the step that is being formed
  bool drops_empty = false;                   ///< samples without tokens
  std::optional<std::int64_t> drops_above{};  ///< tokens: longer samples are dropped
};

/// Where a rank gets its steps from: one of the ranks that read forms them, and all wait in the buffers until
/// they are written down there. Of several buffers each has its own part of a step, which may be empty, and
/// a step is there once each has its part: whoever forms steps after the parts of one were not all written
/// makes it whole of what waits in the other buffers then, with fewer groups if these have too few.
///
/// Samples have the numbers of JointArrivals; a step's are those of the first buffer, then those of the
/// second. Local, for one thread. A buffer that cannot be reached is tried again until patience is over; what
/// takes 10 seconds is told as a waiting note, by the rank that forms.
class StepsOfBuffers {
 public:
  /// `must_stop`, which has to outlive it, ends waiting from another thread.
  StepsOfBuffers(const BufferAccess& access, const std::atomic<bool>& must_stop);

  /// How lines write fields: what the buffers have told the rank that began.
  void read_as(ToldFormats formats) { formats_ = std::move(formats); }
  /// Says how many samples a step has, and learns the rules of each buffer.
  [[nodiscard]] std::vector<JobBegun> begin(std::int64_t samples_per_step);

  /// The step, once it is formed: by this rank, where it has rules for that, unless it was formed before.
  /// Throws EndOfSamples if it never will be, IoError when patience is over, and InputError for a step that
  /// is not the next one or whose samples are freed; or what the rank that forms steps has told.
  [[nodiscard]] stream::FormedStep step(std::int64_t number, const FormingRules* rules);

  /// Samples of steps that came from here, in this order: their ids are these numbers. Throws InputError
  /// where one is damaged, and, on every rank that had the same steps, where two of the buffers that these
  /// have samples of have other fields.
  [[nodiscard]] RaggedBatch read(std::span<const std::int64_t> numbers);

  /// What the buffers say of their samples together, or said last where one cannot be reached now. Without
  /// what follows.
  [[nodiscard]] ArrivalFigures figures();
  /// Adds, of the steps that came from here, samples by the versions that they were behind, and the seconds
  /// until they were formed. From any thread.
  void add_steps_to(ArrivalFigures& figures) const;

  void publish(std::int64_t version);
  /// Tries for a moment. Whether all buffers were reached.
  [[nodiscard]] bool trained(std::int64_t step);
  /// Throws IoError when patience is over, and EndOfSamples if it must stop.
  void wait_until_told_that_trained(std::int64_t step);

 private:
  /// Of a step, by buffer: those that are written down.
  using Parts = std::vector<std::optional<stream::FormedStep>>;
  /// What looking at the buffers that lack their parts has found.
  struct Looked {
    std::int64_t ready = 0;
    std::int64_t open = 0;
    std::optional<double> since_last_sample{};
    std::string failure{};  ///< why the rank that forms steps gave up; empty if it did not
    bool are_over = true;   ///< none of them will have groups of a step, unless all are to have their parts
  };

  [[nodiscard]] Patience patience(bool tells) const { return {access_.patience, all_urls(), tells}; }
  [[nodiscard]] std::string all_urls() const;
  template <typename Call>
  auto until_reached(Patience& patience, Call&& call);
  [[nodiscard]] Parts form(std::int64_t number, const FormingRules& rules);
  [[nodiscard]] Parts wait_for(std::int64_t number);
  /// Looks at each buffer that lacks its part, and waits for the first.
  Looked look_for_parts(std::int64_t number, Parts& parts, std::chrono::seconds time, Patience& patience);
  /// What waits, by buffer; nothing of those that have their part.
  [[nodiscard]] std::vector<JobWaiting> wait_for_groups(const Parts& parts, std::int64_t enough,
                                                        std::int64_t most, Patience& patience);
  void try_to_form(std::int64_t number, const FormingRules& rules, std::span<const JobWaiting> waiting,
                   Parts& parts, Patience& patience);
  [[nodiscard]] bool publish_the_latest(const Parts& parts, std::span<const JobWaiting> waiting,
                                        Patience& patience);
  [[nodiscard]] bool drop_what_is_filtered(const FormingRules& rules, std::span<const JobWaiting> waiting,
                                           Patience& patience);
  void give_up(std::int64_t number, const std::string& why) noexcept;
  void require_going_on() const;
  void note(const Parts& parts, double waited);

  BufferAccess access_;
  const std::atomic<bool>& must_stop_;
  std::vector<JobClient> clients_;
  stream::JointArrivals arrivals_;
  ToldFormats formats_;
  std::vector<bool> has_samples_;                       // buffers that steps had samples of
  std::vector<std::optional<JsonlSchema>> schemas_;     // of these
  std::vector<std::optional<ArrivalFigures>> figures_;  // as each buffer said last
  std::vector<bool> are_figures_known_;                 // as they are now
  mutable std::mutex steps_mutex_;                      // of what follows
  std::map<std::int64_t, std::int64_t> staleness_;
  double waited_ = 0;

  int changes_ = 0;             // of what waits, while a step was being formed of it
  std::size_t looks_next_ = 0;  // for groups, at this buffer
};

}  // namespace evenkeel
