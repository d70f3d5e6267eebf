#include "job/job_state.hpp"

#include <fmt/format.h>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {

JobState::JobState(const boost::mpi::communicator& world, const StateSettings& settings, const Config& config,
                   bool overwrite)
    : settings_(settings) {
  GuardedWork work;
  std::string text;
  if (world.rank() == 0 && is_kept()) {
    work([&] {
      folder_.emplace(settings_.folder, new_identity(0));
      text = read_state_to_resume(overwrite);
    });
  }
  if (world.rank() == 0) {
    work([&] {
      if (!text.empty()) return;
      initial_state_ = state_of_new_job(config);
      initial_state_.job = is_kept() ? random_name() : "";
      text = to_text(initial_state_);
    });
  }
  broadcast_bytes(world, text, 0, work);
  work([&] {
    initial_state_ = parse_state(text, "the state of the job");
    // Until a job has made a step, its settings may still change.
    if (initial_state_.next_step == 0) initial_state_.settings = list_settings(config);
    is_resumed_ = initial_state_.next_step > 0;
  });
  work.agree(world);
}

// Returns the text of the state to resume from, or an empty string for a new job. A state from before a job's
// first step may be replaced, since that job has not left anything else behind.
std::string JobState::read_state_to_resume(bool overwrite) {
  const std::optional<ServiceState> found = settings_.resume || !overwrite ? folder_->read() : std::nullopt;
  if (!found) return {};
  if (settings_.resume) return to_text(*found);
  if (found->next_step == 0) return {};
  throw IoError(
      folder_->file_path(), fmt::format("has the state of a job before step {}", found->next_step),
      "Give --resume to continue the job, --overwrite to start again, or another folder to --state");
}

std::vector<std::string> JobState::accept_changes(const ServiceState& now) const {
  // The state of a new job has no sources to compare with.
  if (!is_resumed_) return {};
  if (settings_.changed == ChangedJob::refused)
    require_same_job(initial_state_, now, (settings_.folder / StateFolder::file_name).string());
  return differences(initial_state_, now);
}

bool JobState::write_if_due(const boost::mpi::communicator& world, std::int64_t next_step,
                            const std::function<ServiceState()>& now, bool always) {
  if (!is_kept() || next_step == last_written_step_) return true;
  if (!always && next_step % settings_.every != 0) return false;
  const Phase phase("keep the state", next_step);
  run_together(world, [&] {
    if (!folder_) return;
    ServiceState state = now();
    state.next_step = next_step;
    state.job = initial_state_.job;
    folder_->write(state);
  });
  last_written_step_ = next_step;
  return true;
}

}  // namespace evenkeel
