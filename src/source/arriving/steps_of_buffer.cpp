#include "source/arriving/steps_of_buffer.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/activity.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "evenkeel/base/error.hpp"
#include "source/arriving/patience.hpp"
#include "stream/former.hpp"

namespace evenkeel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds one_wait{2};  // duration of one poll, after which must_stop_ is checked
constexpr std::chrono::seconds no_wait{0};
constexpr std::chrono::milliseconds first_pause{50};
constexpr int max_tries = 3;                       // maximum number of attempts of try_briefly()
constexpr std::chrono::seconds longest_moment{2};  // time limit for an answer that a ShortTimeout sets
// Maximum number of failed attempts to form one step (StepsOfBuffer::changes_).
constexpr int max_changes = 100;

/// Shortens a client's answer timeout for the lifetime of this object.
class ShortTimeout {
 public:
  explicit ShortTimeout(JobClient& client) : client_(client) { client_.set_answer_timeout(longest_moment); }
  ~ShortTimeout() { client_.set_answer_timeout(JobClient::default_answer_timeout); }
  ShortTimeout(const ShortTimeout&) = delete;
  ShortTimeout& operator=(const ShortTimeout&) = delete;

 private:
  JobClient& client_;
};

/// Makes up to max_tries attempts with a short timeout. Returns whether the buffer was reached.
template <typename Call>
bool try_briefly(JobClient& client, Call&& call) {
  const ShortTimeout hurry(client);
  for (int tries = 0; tries < max_tries; ++tries) {
    try {
      call();
      return true;
    } catch (const IoError&) {
      std::this_thread::sleep_for(first_pause);
    }
  }
  return false;
}

[[noreturn]] void throw_end_of_samples() {
  throw EndOfSamples("samples", "have ended: no more will arrive, and none are left for this step");
}

/// Throws InputError unless the step has already been formed or is the next one to form.
void require_next_step(std::int64_t number, const JobStep& known) {
  if (known.step) return;
  const std::string step = "step " + std::to_string(number);
  if (known.trained_step && number <= *known.trained_step) {
    throw InputError(step,
                     "cannot be created again: the buffer has freed the samples of steps up to " +
                         std::to_string(*known.trained_step) + ", which were trained",
                     "Resume from the job's latest state, or start from the beginning with a new buffer");
  }
  if (known.formed_step && number != *known.formed_step + 1) {
    const bool is_ahead = number > *known.formed_step;
    const std::int64_t first = *known.formed_step + 1;
    const std::string skipped = first == number - 1
                                    ? "step " + std::to_string(first)
                                    : "steps " + std::to_string(first) + " to " + std::to_string(number - 1);
    throw InputError(
        step, "is not the next one: the buffer has formed steps up to " + std::to_string(*known.formed_step),
        is_ahead ? "If the buffer was restored from an older copy, POST /v1/skip {\"step\": " +
                       std::to_string(number - 1) + "} gives up " + skipped +
                       ": samples of skipped steps that the copy has are trained again, and later ones are "
                       "lost. Otherwise, connect to the buffer with which the job ran"
                 : "Resume from the job's latest state, or start from the beginning with a new buffer");
  }
}

ArrivalFigures figures_of(const nlohmann::json& status) {
  ArrivalFigures figures;
  const nlohmann::json& samples = status.at("samples");
  figures.received = samples.at("received");
  figures.duplicates = samples.at("duplicates");
  figures.trained = samples.at("trained");
  figures.formed = samples.at("formed");
  figures.waiting = samples.at("waiting");
  for (const auto& [reason, count] : samples.at("dropped").items()) figures.dropped[reason] = count;
  figures.received_tokens = status.at("response_tokens").at("received");
  figures.trained_tokens = status.at("response_tokens").at("trained");
  return figures;
}

}  // namespace

StepsOfBuffer::StepsOfBuffer(BufferAccess access, const std::atomic<bool>& must_stop)
    : access_(std::move(access)),
      must_stop_(must_stop),
      client_(access_.url, access_.token, access_.ca, access_.pass) {}

template <typename Call>
auto StepsOfBuffer::retry_until_reached(Patience& patience, Call&& call) {
  const Waiting waiting("samples of producers", WaitFor::producers);
  while (true) {
    if (must_stop_) throw_end_of_samples();  // the trainer has stopped, so it does not need the step
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return patience.on_reached();
      } else {
        auto answer = call();
        patience.on_reached();
        return answer;
      }
    } catch (const IoError& error) {
      patience.on_unreachable(error);
    }
  }
}

JobStartReply StepsOfBuffer::begin(std::int64_t samples_per_step, const JobStart& start) {
  Patience patience = this->patience(true);
  return retry_until_reached(patience, [&] { return client_.begin(samples_per_step, start); });
}

stream::FormedStep StepsOfBuffer::step(std::int64_t number, const FormingRules* rules) {
  const Clock::time_point begun = Clock::now();
  try {
    stream::FormedStep step = rules == nullptr ? wait_for(number) : form(number, *rules);
    record_step_figures(step, std::chrono::duration<double>(Clock::now() - begun).count());
    return step;
  } catch (const EndOfSamples&) {
    throw;
  } catch (const std::exception& error) {
    if (rules != nullptr) abandon_step(number, error.what());
    throw;
  }
}

void StepsOfBuffer::record_step_figures(const stream::FormedStep& step, double waited) {
  const std::lock_guard lock(steps_mutex_);
  waited_ += waited;
  for (const stream::WaitingGroup& group : step.groups) {
    for (const stream::WaitingSample& sample : group.samples)
      ++staleness_[stream::versions_behind(step.version, sample.version)];
  }
}

// Ignores errors: if this report is lost, the waiting ranks fail when their own time limits expire.
void StepsOfBuffer::abandon_step(std::int64_t number, const std::string& why) noexcept {
  try {
    const ShortTimeout hurry(client_);
    client_.abandon_step(number, why);
  } catch (...) {
    return;
  }
}

JobStep StepsOfBuffer::poll_step(std::int64_t number, std::chrono::seconds time, Patience& patience) {
  JobStep come = retry_until_reached(patience, [&] { return client_.wait_for_step(number, time); });
  require_next_step(number, come);
  if (come.is_over) throw_end_of_samples();
  return come;
}

stream::FormedStep StepsOfBuffer::wait_for(std::int64_t number) {
  Patience patience = this->patience(false);
  while (true) {
    JobStep come = poll_step(number, one_wait, patience);
    if (come.step) return *std::move(come.step);
    if (!come.failure.empty()) throw InputError("the rank that forms steps", come.failure);
    patience.on_unformed(
        {number, 0, come.ready_groups, come.open_groups, come.seconds_since_last_sample, come.tickets});
  }
}

stream::FormedStep StepsOfBuffer::form(std::int64_t number, const FormingRules& rules) {
  Patience patience = this->patience(true);
  JobStep come = poll_step(number, no_wait, patience);
  if (come.step) return *std::move(come.step);
  if (!come.failure.empty()) abandon_step(number, "");  // withdraws the report of an earlier failure
  if (rules.publishes_steps) publish(number);
  // With max_staleness, urgent groups may be anywhere in the queue. Otherwise, only the window at the front
  // of the queue is needed.
  const std::int64_t most = rules.stream.max_staleness ? std::numeric_limits<std::int32_t>::max()
                                                       : (1 + rules.stream.look_ahead) * rules.groups;
  while (true) {
    const JobWaitingGroups waiting =
        retry_until_reached(patience, [&] { return client_.wait_for_groups(rules.groups, most, one_wait); });
    if (drop_filtered_samples(rules, waiting, patience)) continue;
    if (std::optional<stream::FormedStep> formed = try_form_step(number, rules, waiting, patience))
      return *std::move(formed);
    if (waiting.has_ended && waiting.ready_groups + waiting.open_groups == 0) throw_end_of_samples();
    patience.on_unformed({number, rules.groups, waiting.ready_groups, waiting.open_groups,
                          waiting.seconds_since_last_sample, waiting.tickets, waiting.full,
                          waiting.missing_fields});
  }
}

bool StepsOfBuffer::drop_filtered_samples(const FormingRules& rules, const JobWaitingGroups& waiting,
                                          Patience& patience) {
  std::vector<std::int64_t> dropped;
  for (const stream::WaitingGroup& group : waiting.groups) {
    for (const stream::WaitingSample& sample : group.samples) {
      const std::int64_t tokens = sample.prompt + sample.response;
      if ((rules.drops_empty && tokens == 0) || (rules.drops_above && tokens > *rules.drops_above))
        dropped.push_back(sample.arrival);
    }
  }
  if (dropped.empty()) return false;
  retry_until_reached(patience, [&] { client_.drop_filtered(dropped); });
  return true;
}

// Returns nullopt if there are too few samples. Also returns nullopt if the buffer refuses the step because a
// producer has aborted a group or the trainer has published a version in the meantime; the caller then
// requests the waiting groups again.
std::optional<stream::FormedStep> StepsOfBuffer::try_form_step(std::int64_t number, const FormingRules& rules,
                                                               const JobWaitingGroups& waiting,
                                                               Patience& patience) {
  const std::optional<stream::StepFormed> formed =
      stream::form_step({waiting.groups, waiting.coming, number, waiting.version, rules.groups,
                         waiting.has_ended, rules.stream, rules.plan});
  if (!formed) return std::nullopt;
  const bool is_formed = retry_until_reached(patience, [&] { return client_.form_step(*formed); });
  if (!is_formed && ++changes_ > max_changes) {
    throw InputError("step " + std::to_string(number),
                     "cannot be recorded: the waiting groups or the policy version changed during each of " +
                         std::to_string(changes_) + " attempts",
                     "Check whether producers close or abort groups, or the trainer publishes versions, too "
                     "often");
  }
  JobStep come = poll_step(number, no_wait, patience);
  if (come.step) changes_ = 0;
  return std::move(come.step);
}

RaggedBatch StepsOfBuffer::read(std::span<const std::int64_t> arrivals) {
  if (arrivals.empty()) return {};
  Patience patience = this->patience(false);
  if (!schema_) schema_ = retry_until_reached(patience, [&] { return client_.schema(); });
  const std::string lines = retry_until_reached(patience, [&] { return client_.fetch_samples(arrivals); });
  return parse_samples(lines, arrivals, *schema_, formats_);
}

// The trainer calls this between two steps. Except in the first call, makes only a few quick attempts to
// reach the buffer, since the trainer should not wait and the next step may not need the buffer.
ArrivalFigures StepsOfBuffer::figures() {
  const auto ask = [&] { figures_ = figures_of(nlohmann::json::parse(client_.status())); };
  if (!figures_) {
    Patience patience = this->patience(true);
    retry_until_reached(patience, ask);
  } else if (const bool is_current = try_briefly(client_, ask); is_current != are_figures_current_) {
    are_figures_current_ = is_current;
    if (!is_current)
      send_waiting_note("the buffer at " + access_.url +
                        " cannot be reached, so the figures about samples may be out of date");
  }
  return *figures_;
}

void StepsOfBuffer::set_step_figures(ArrivalFigures& figures) const {
  const std::lock_guard lock(steps_mutex_);
  figures.staleness = staleness_;
  figures.waited_seconds = waited_;
}

void StepsOfBuffer::publish(std::int64_t version) {
  Patience patience = this->patience(true);
  retry_until_reached(patience, [&] { client_.publish(version); });
}

bool StepsOfBuffer::report_trained(std::int64_t step) {
  return try_briefly(client_, [&] { client_.report_trained(step); });
}

void StepsOfBuffer::report_trained_until_reached(std::int64_t step) {
  Patience patience = this->patience(true);
  retry_until_reached(patience, [&] { client_.report_trained(step); });
}

}  // namespace evenkeel
