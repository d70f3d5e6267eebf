#include "source/arriving/steps_of_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "base/text_layout.hpp"
#include "buffer/intake/sent_samples.hpp"
#include "evenkeel/base/error.hpp"
#include "source/arriving/waiting_note.hpp"
#include "stream/former.hpp"

namespace evenkeel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds one_wait{2};  // after which this rank looks whether it is to stop
constexpr std::chrono::seconds first_note{10};
constexpr std::chrono::seconds next_note{30};
constexpr std::chrono::milliseconds first_pause{50};
constexpr std::chrono::milliseconds longest_pause{2000};
constexpr int most_tries = 3;      // of what may be said later
constexpr int most_changes = 100;  // of groups, while a step is being formed of them

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

/// Whether the buffer was reached.
template <typename Call>
bool tried_for_a_moment(Call&& call) {
  for (int tries = 0; tries < most_tries; ++tries) {
    try {
      call();
      return true;
    } catch (const IoError&) {
      std::this_thread::sleep_for(first_pause);
    }
  }
  return false;
}

[[noreturn]] void throw_end() {
  throw EndOfSamples("samples", "have ended: no more will come, and all are in earlier steps");
}

/// What a step lacks.
struct Lack {
  std::int64_t step = 0;
  std::int64_t needed = 0;  ///< groups
  std::int64_t ready = 0;
  std::int64_t open = 0;
  std::optional<double> since_last_sample;
};

std::string words_of(const Lack& lack) {
  const std::string last = lack.since_last_sample
                               ? fmt::format("the last sample came {:.0f} s ago", *lack.since_last_sample)
                               : "no sample has come since the buffer was started";
  return fmt::format("step {} needs {}; {} {} complete, {} {} for samples; {}", lack.step,
                     counted(lack.needed, "group"), lack.ready, lack.ready == 1 ? "is" : "are", lack.open,
                     lack.open == 1 ? "waits" : "wait", last);
}

}  // namespace

/// How long a rank has waited, and what for.
class StepsOfBuffer::Patience {
 public:
  Patience(const BufferAccess& access, bool tells) : access_(access), tells_(tells) {}

  /// Throws IoError if there has been no sample for too long.
  void waits_for(const Lack& lack) {
    const double waited = seconds_since(begun_);
    const double idle = std::min(waited, lack.since_last_sample.value_or(waited));
    if (access_.patience && idle > *access_.patience) {
      throw IoError("step " + std::to_string(lack.step),
                    fmt::format("has waited {:.0f} s for samples (stream.patience: {:g}): {}", waited,
                                *access_.patience, words_of(lack)),
                    "Are the producers running? " + access_.url + "/v1/status says what has come");
    }
    tell([&] { return fmt::format("waiting for samples for {:.0f} s: {}", waited, words_of(lack)); });
  }

  /// Pauses before the buffer is tried again; throws the error instead when it was tried for long enough.
  void lacks_buffer(const Error& error) {
    if (!lost_) {
      lost_ = Clock::now();
      pause_ = first_pause;
    }
    const double lost = seconds_since(*lost_);
    if (access_.patience && lost > *access_.patience) throw;
    tell([&] { return fmt::format("trying the buffer again for {:.0f} s: {}", lost, error.what()); });
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, longest_pause);
  }
  void has_buffer() noexcept { lost_.reset(); }

 private:
  template <typename Words>
  void tell(Words&& words) {
    if (!tells_ || Clock::now() - begun_ < note_after_) return;
    note_waiting(words());
    note_after_ = Clock::now() - begun_ + next_note;
  }

  const BufferAccess& access_;
  bool tells_;
  Clock::time_point begun_ = Clock::now();
  Clock::duration note_after_ = first_note - one_wait;
  std::optional<Clock::time_point> lost_;
  std::chrono::milliseconds pause_ = first_pause;
};

StepsOfBuffer::StepsOfBuffer(const BufferAccess& access, const std::atomic<bool>& must_stop)
    : access_(access), must_stop_(must_stop), client_(access.url, access.token, access.ca) {}

void StepsOfBuffer::require_going_on() const {
  if (must_stop_) throw_end();
}

template <typename Call>
auto StepsOfBuffer::until_reached(Patience& patience, Call&& call) {
  const Waiting waiting("samples of producers", WaitFor::producers);
  while (true) {
    require_going_on();
    try {
      auto answer = call();
      patience.has_buffer();
      return answer;
    } catch (const IoError& error) {
      patience.lacks_buffer(error);
    }
  }
}

JobBegun StepsOfBuffer::begin(std::int64_t samples_per_step) {
  Patience patience(access_, true);
  return until_reached(patience, [&] { return client_.begin(samples_per_step); });
}

stream::FormedStep StepsOfBuffer::step(std::int64_t number, const FormingRules* rules) {
  const Clock::time_point begun = Clock::now();
  try {
    stream::FormedStep step = rules == nullptr ? wait_for(number) : form(number, *rules);
    const std::lock_guard lock(steps_mutex_);
    waited_ += seconds_since(begun);
    for (const stream::WaitingGroup& group : step.groups) {
      for (const stream::WaitingSample& sample : group.samples) ++staleness_[step.version - sample.version];
    }
    return step;
  } catch (const EndOfSamples&) {
    throw;
  } catch (const std::exception& error) {
    if (rules != nullptr) give_up(number, error.what());
    throw;
  }
}

// Whoever waits has its own patience if this does not arrive.
void StepsOfBuffer::give_up(std::int64_t number, const std::string& why) noexcept {
  try {
    client_.give_up(number, why);
  } catch (...) {
    return;
  }
}

namespace {

/// That the step is formed already, or the next one to be.
void require_in_turn(std::int64_t number, const JobStep& known) {
  if (known.step) return;
  const std::string step = "step " + std::to_string(number);
  if (known.trained_step && number <= *known.trained_step) {
    throw InputError(step,
                     "cannot be made again: the buffer has freed the samples of steps up to " +
                         std::to_string(*known.trained_step) + ", which were trained",
                     "Resume from the job's latest state, or give a job that begins a new buffer");
  }
  if (known.formed_step && number != *known.formed_step + 1) {
    throw InputError(
        step, "is not the next one: the buffer has formed steps up to " + std::to_string(*known.formed_step),
        "Resume from the job's latest state, or give a job that begins a new buffer");
  }
}

}  // namespace

stream::FormedStep StepsOfBuffer::wait_for(std::int64_t number) {
  Patience patience(access_, false);
  while (true) {
    JobStep come = until_reached(patience, [&] { return client_.wait_for_step(number, one_wait); });
    if (come.step) return *std::move(come.step);
    require_in_turn(number, come);
    if (come.is_over) throw_end();
    if (!come.failure.empty()) throw InputError("the rank that forms steps", come.failure);
    patience.waits_for({number, 1, come.ready_groups, come.open_groups, come.since_last_sample});
  }
}

stream::FormedStep StepsOfBuffer::form(std::int64_t number, const FormingRules& rules) {
  Patience patience(access_, true);
  JobStep known =
      until_reached(patience, [&] { return client_.wait_for_step(number, std::chrono::seconds(0)); });
  if (known.step) return *std::move(known.step);
  require_in_turn(number, known);
  if (known.is_over) throw_end();
  if (!known.failure.empty()) give_up(number, "");  // not any more
  if (rules.publishes_steps) publish(number);
  // What is in a hurry may be anywhere in the queue; otherwise the window is at its front.
  const std::int64_t most = rules.stream.max_staleness ? std::numeric_limits<std::int32_t>::max()
                                                       : (1 + rules.stream.look_ahead) * rules.groups;
  while (true) {
    const JobWaiting waiting =
        until_reached(patience, [&] { return client_.wait_for(rules.groups, most, one_wait); });
    if (drop_what_is_filtered(rules, waiting, patience)) continue;
    if (auto formed = try_to_form(number, rules, waiting, patience)) return *std::move(formed);
    if (waiting.has_ended && waiting.ready_groups + waiting.open_groups == 0) throw_end();
    patience.waits_for(
        {number, rules.groups, waiting.ready_groups, waiting.open_groups, waiting.since_last_sample});
  }
}

bool StepsOfBuffer::drop_what_is_filtered(const FormingRules& rules, const JobWaiting& waiting,
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
  until_reached(patience, [&] {
    client_.drop_filtered(dropped);
    return true;
  });
  return true;
}

// A producer may abort a group in the meantime, or the trainer publish a version: then what waits is looked
// at again.
std::optional<stream::FormedStep> StepsOfBuffer::try_to_form(std::int64_t number, const FormingRules& rules,
                                                             const JobWaiting& waiting, Patience& patience) {
  const std::optional<stream::StepFormed> formed =
      stream::form_step({waiting.groups, waiting.coming, number, waiting.version, rules.groups,
                         waiting.has_ended, rules.stream, rules.plan});
  if (!formed) return std::nullopt;
  try {
    until_reached(patience, [&] {
      client_.form(*formed);
      return true;
    });
  } catch (const InputError&) {
    if (++changes_ > most_changes) throw;
  }
  JobStep known =
      until_reached(patience, [&] { return client_.wait_for_step(number, std::chrono::seconds(0)); });
  if (known.step) changes_ = 0;
  return std::move(known.step);
}

RaggedBatch StepsOfBuffer::read(std::span<const std::int64_t> arrivals) {
  const JsonlSchema& fields = schema();
  if (arrivals.empty()) return {};
  Patience patience(access_, false);
  const std::string lines = until_reached(patience, [&] { return client_.lines(arrivals); });
  return sent_samples(lines, arrivals, fields, formats_);
}

const JsonlSchema& StepsOfBuffer::schema() {
  if (!schema_) {
    Patience patience(access_, false);
    schema_ = until_reached(patience, [&] { return client_.schema(); });
  }
  return *schema_;
}

namespace {

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

// A trainer asks between two steps, and is not to wait for a buffer that it does not need for the next one.
ArrivalFigures StepsOfBuffer::figures() {
  const auto ask = [&] {
    figures_ = figures_of(nlohmann::json::parse(client_.status()));
    return true;
  };
  if (!figures_) {
    Patience patience(access_, true);
    until_reached(patience, ask);
  } else if (const bool is_known = tried_for_a_moment(ask); is_known != are_figures_known_) {
    are_figures_known_ = is_known;
    if (!is_known) note_waiting("the buffer cannot be reached: figures of samples stay as they were");
  }
  return *figures_;
}

void StepsOfBuffer::add_steps_to(ArrivalFigures& figures) const {
  const std::lock_guard lock(steps_mutex_);
  figures.staleness = staleness_;
  figures.waited = waited_;
}

void StepsOfBuffer::publish(std::int64_t version) {
  Patience patience(access_, true);
  until_reached(patience, [&] {
    client_.publish(version);
    return true;
  });
}

bool StepsOfBuffer::trained(std::int64_t step) {
  return tried_for_a_moment([&] { client_.trained(step); });
}

void StepsOfBuffer::wait_until_told_that_trained(std::int64_t step) {
  Patience patience(access_, true);
  until_reached(patience, [&] {
    client_.trained(step);
    return true;
  });
}

}  // namespace evenkeel
