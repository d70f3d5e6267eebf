#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/steps.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {

/// Request to make steps ahead.
struct StepsRequest {
  std::int64_t steps = 0;  // end (exclusive) of the range of step numbers to make
  Steps::Reader read;      // reads this rank's samples of a step
  std::string profile;
};

/// Makes the steps of a service ahead of the trainer. Implements Steps; see its header for the contracts.
///
/// This class has its own StepMaker, separate from the StepMaker for the trainer's later passes. Its thread
/// and these passes interleave differently on each rank, so they must not share state on which all ranks
/// agree: communicators, sequence numbers of passes, chosen shapes, and measured costs.
class StepsAhead {
 public:
  /// Collective over `world`. `from` must be equal on all ranks, and the caller must have checked that it
  /// belongs to this job.
  StepsAhead(const Communicator& world, const Config& config, StepsRequest wanted, const ServiceState& from);

  [[nodiscard]] const StepMaker& maker() const noexcept { return maker_; }
  /// Returns the state before the next step that the trainer takes, regardless of how many steps were made
  /// ahead.
  [[nodiscard]] ServiceState state() const;
  [[nodiscard]] const std::string& profile() const noexcept { return profile_; }
  [[nodiscard]] bool in_background() const noexcept { return thread_.joinable(); }
  /// The next two functions implement the functions of Steps with the same names.
  [[nodiscard]] std::optional<Step> next();
  bool progress();
  /// Stops making steps, and discards steps that the trainer has not taken. If steps are made in the
  /// background, waits for the threads of the other ranks, so that all ranks stop after the same step.
  void stop() noexcept;

 private:
  /// Marks the end of the samples.
  struct EndOfSteps {};
  /// A step, the error that all ranks throw in place of the step, or the end of the samples.
  using MadeStep = std::variant<std::exception_ptr, Step, EndOfSteps>;

  /// Queue of steps between the thread that makes them and the trainer.
  struct StepQueue {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::deque<MadeStep> made;
    std::exception_ptr fatal_error;  // error after which no steps are made; null if there was none
    bool has_begun = false;          // whether the thread of every rank has started
  };

  void start_thread();
  [[nodiscard]] MadeStep take();
  void make_all(const std::stop_token& stop);
  void wait_for_room(const std::stop_token& stop);
  void queue_next_step(const std::stop_token* stop = nullptr);
  void agree_to_continue(const std::stop_token& stop);
  /// Returns whether next() has to make a step on the trainer's thread. is_step_made_by_progress() is the
  /// corresponding function for progress(). The results are equal on all ranks.
  [[nodiscard]] bool is_step_made_by_next() const noexcept {
    return !in_background() && ready_->made.empty() && has_steps_to_make();
  }
  [[nodiscard]] bool is_step_made_by_progress() const noexcept {
    return !in_background() && has_steps_to_make() && !is_full();
  }
  [[nodiscard]] bool has_steps_to_make() const noexcept {
    return !ready_->fatal_error && !no_more_ && made_ < steps_;
  }
  [[nodiscard]] MadeStep make_next();
  [[nodiscard]] bool is_full() const noexcept { return std::ssize(ready_->made) >= depth_; }

  StepMaker maker_;
  Steps::Reader read_;
  std::string profile_;
  std::int64_t steps_;      // only steps below this number are made (StepsRequest::steps)
  std::int64_t depth_;      // exchange.prefetch: maximum number of steps in `ready_`
  std::int64_t made_;       // number of the next step to make; used only by the thread that makes steps
  std::int64_t taken_;      // number of the next step that the trainer takes
  bool no_more_ = false;    // whether samples have ended; used only by the thread that makes steps
  bool has_ended_ = false;  // whether samples have ended; used only by the trainer's thread
  // Measured costs, by profile, and shapes as of the last step that the trainer took.
  std::map<std::string, SavedCost> costs_;
  std::shared_ptr<const std::vector<PackedShape>> shapes_;

  std::unique_ptr<StepQueue> ready_ = std::make_unique<StepQueue>();
  std::jthread thread_;  // declared last, so that it ends before the members that it uses are destroyed
};

/// State shared by a DataService and its Steps. Allocated on all ranks before any of them communicates about
/// the service.
struct ServiceParts {
  std::optional<StepMaker> maker;               // makes later passes, and steps from the trainer's samples
  std::optional<ServiceState> unchecked_state;  // state to resume from, until its sources have been compared
  bool has_made_steps = false;                  // whether steps were made from the trainer's samples
  const RaggedBatch no_fields;
  // State after the steps of the previous Steps object; used if `ahead` is not set.
  std::optional<ServiceState> position;
  // Implementation of the latest Steps object; kept after that object is destroyed, since state() still needs
  // its position.
  std::optional<StepsAhead> ahead;
  bool makes_ahead = false;  // whether a Steps object exists

  [[nodiscard]] ServiceState state() const;
};

}  // namespace evenkeel
