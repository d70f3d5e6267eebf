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

/// The steps that are to be made ahead, `steps` in all, of what and under which profile.
struct StepsWanted {
  std::int64_t steps = 0;
  Steps::Reader read;
  std::string profile;
};

/// Makes the steps of a service ahead of the trainer; the header of Steps has the contracts.
class StepsAhead {
 public:
  /// Collective over `world`; `from` is equal on all ranks, and its job was compared.
  StepsAhead(const Communicator& world, const Config& config, StepsWanted wanted, const ServiceState& from);

  [[nodiscard]] const StepMaker& maker() const noexcept { return maker_; }
  [[nodiscard]] ServiceState state() const;
  [[nodiscard]] const std::string& profile() const noexcept { return profile_; }
  [[nodiscard]] bool in_background() const noexcept { return thread_.joinable(); }
  [[nodiscard]] std::optional<Step> next();
  bool progress();
  /// Makes no more steps, and drops those that nobody took. Waits for the other ranks.
  void stop() noexcept;

 private:
  /// Samples have ended before it.
  struct NoMore {};
  /// A step, or the error that all ranks throw in its place.
  using Made = std::variant<std::exception_ptr, Step, NoMore>;

  /// Steps on their way from the thread that makes them to the trainer.
  struct Handover {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::deque<Made> made;
    std::exception_ptr end;  // why no more steps are made before all are
    bool has_begun = false;  // all ranks have a thread
  };

  void start_thread();
  [[nodiscard]] Made take();
  void make_all(const std::stop_token& stop);
  void wait_for_room(const std::stop_token& stop);
  void make_or_end(const std::stop_token* stop = nullptr);
  void require_all_go_on(const std::stop_token& stop);
  /// Whether next() or progress() makes a step, on the trainer's thread. The same on all ranks.
  [[nodiscard]] bool makes_in_next() const noexcept {
    return !in_background() && ready_->made.empty() && can_make();
  }
  [[nodiscard]] bool makes_in_progress() const noexcept {
    return !in_background() && can_make() && !is_full();
  }
  [[nodiscard]] bool can_make() const noexcept { return !ready_->end && !no_more_ && made_ < steps_; }
  [[nodiscard]] Made make_next();
  [[nodiscard]] bool is_full() const noexcept { return std::ssize(ready_->made) >= depth_; }

  StepMaker maker_;
  Steps::Reader read_;
  std::string profile_;
  std::int64_t steps_;
  std::int64_t depth_;
  std::int64_t made_;       // the next step to be begun, by whoever makes them
  std::int64_t taken_;      // the next one that the trainer takes
  bool no_more_ = false;    // samples have ended: of whoever makes steps
  bool has_ended_ = false;  // the trainer was told
  // As of the last step that the trainer took.
  std::map<std::string, SavedCost> costs_;
  std::shared_ptr<const std::vector<PackedShape>> shapes_;

  std::unique_ptr<Handover> ready_ = std::make_unique<Handover>();
  std::jthread thread_;  // last, so that it has ended before what it uses goes
};

/// State shared by a DataService and its Steps. Allocated on all ranks before any of them communicates about
/// the service.
struct ServiceParts {
  std::optional<StepMaker> maker;         // makes later passes, and steps of samples that the trainer brings
  std::optional<ServiceState> unchecked;  // the state to resume from, until its sources were compared
  bool has_made_steps = false;            // from samples that the trainer brought
  const RaggedBatch no_fields;
  std::optional<ServiceState> position;  // where the Steps before `ahead` ended
  std::optional<StepsAhead> ahead;       // the latest; keeps its position when its Steps end
  bool makes_ahead = false;              // Steps exist

  [[nodiscard]] ServiceState state() const;
};

}  // namespace evenkeel
