#include "source/arriving/steps_of_buffers.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/activity.hpp"
#include "buffer/intake/sent_samples.hpp"
#include "evenkeel/base/error.hpp"
#include "source/agreed_fields.hpp"
#include "source/arriving/waiting_note.hpp"
#include "source/cut_samples.hpp"
#include "stream/former.hpp"

namespace evenkeel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds one_wait{2};  // after which this rank looks whether it is to stop
constexpr std::chrono::seconds no_wait{0};
constexpr std::chrono::milliseconds one_look{50};  // at one of several buffers, for groups
constexpr std::chrono::milliseconds first_pause{50};
constexpr std::chrono::milliseconds pause_for_parts{20};
constexpr int most_tries = 3;      // of what may be said later
constexpr int most_changes = 100;  // of groups, while a step is being formed of them

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

using PartsOfStep = std::span<const std::optional<stream::FormedStep>>;

bool is_whole(PartsOfStep parts) {
  return std::ranges::all_of(parts, [](const auto& part) { return part.has_value(); });
}

bool is_begun(PartsOfStep parts) {
  return std::ranges::any_of(parts, [](const auto& part) { return part.has_value(); });
}

/// The time of the last sample of any buffer.
void keep_latest(std::optional<double>& since, std::optional<double> other) {
  if (other) since = std::min(since.value_or(*other), *other);
}

/// What waits in all of them.
struct InAll {
  std::int64_t ready = 0;
  std::int64_t open = 0;
  std::optional<double> since_last_sample;
  bool has_ended = true;
};

InAll in_all(PartsOfStep parts, std::span<const JobWaiting> waiting) {
  InAll all;
  for (std::size_t b = 0; b < waiting.size(); ++b) {
    if (parts[b]) continue;
    all.ready += waiting[b].ready_groups;
    all.open += waiting[b].open_groups;
    keep_latest(all.since_last_sample, waiting[b].since_last_sample);
    all.has_ended = all.has_ended && waiting[b].has_ended;
  }
  return all;
}

std::vector<SourceField> fields_of(const JsonlSchema& schema) {
  std::vector<SourceField> fields;
  for (const FieldSpec& spec : schema.fields)
    fields.push_back({spec, schema.kind_open.contains(spec.name), schema.element_open.contains(spec.name)});
  return fields;
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

ArrivalFigures& operator+=(ArrivalFigures& sum, const ArrivalFigures& other) {
  sum.received += other.received;
  sum.duplicates += other.duplicates;
  sum.trained += other.trained;
  sum.formed += other.formed;
  sum.waiting += other.waiting;
  for (const auto& [reason, count] : other.dropped) sum.dropped[reason] += count;
  sum.received_tokens += other.received_tokens;
  sum.trained_tokens += other.trained_tokens;
  return sum;
}

}  // namespace

StepsOfBuffers::StepsOfBuffers(const BufferAccess& access, const std::atomic<bool>& must_stop)
    : access_(access),
      must_stop_(must_stop),
      arrivals_(access.urls.size()),
      has_samples_(access.urls.size()),
      schemas_(access.urls.size()),
      figures_(access.urls.size()),
      are_figures_known_(access.urls.size(), true) {
  clients_.reserve(access.urls.size());
  for (const std::string& url : access.urls) clients_.emplace_back(url, access.token, access.ca);
}

std::string StepsOfBuffers::all_urls() const {
  std::string all = access_.urls.front();
  for (const std::string& url : std::span(access_.urls).subspan(1)) all += " and " + url;
  return all;
}

void StepsOfBuffers::require_going_on() const {
  if (must_stop_) throw_end();
}

template <typename Call>
auto StepsOfBuffers::until_reached(Patience& patience, Call&& call) {
  const Waiting waiting("samples of producers", WaitFor::producers);
  while (true) {
    require_going_on();
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return patience.has_buffer();
      } else {
        auto answer = call();
        patience.has_buffer();
        return answer;
      }
    } catch (const IoError& error) {
      patience.lacks_buffer(error);
    }
  }
}

std::vector<JobBegun> StepsOfBuffers::begin(std::int64_t samples_per_step) {
  Patience patience = this->patience(true);
  std::vector<JobBegun> begun;
  for (std::size_t b = 0; b < clients_.size(); ++b) {
    const BufferOfJob buffer{static_cast<std::int64_t>(b), std::ssize(clients_)};
    begun.push_back(until_reached(patience, [&] { return clients_[b].begin(samples_per_step, buffer); }));
  }
  return begun;
}

stream::FormedStep StepsOfBuffers::step(std::int64_t number, const FormingRules* rules) {
  const Clock::time_point begun = Clock::now();
  try {
    const Parts parts = rules == nullptr ? wait_for(number) : form(number, *rules);
    note(parts, std::chrono::duration<double>(Clock::now() - begun).count());
    std::vector<stream::FormedStep> whole;
    for (const auto& part : parts) whole.push_back(*part);
    return stream::joint_step(whole);
  } catch (const EndOfSamples&) {
    throw;
  } catch (const std::exception& error) {
    if (rules != nullptr) give_up(number, error.what());
    throw;
  }
}

void StepsOfBuffers::note(const Parts& parts, double waited) {
  const std::lock_guard lock(steps_mutex_);
  waited_ += waited;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    for (const stream::WaitingGroup& group : parts[b]->groups) {
      has_samples_[b] = true;
      for (const stream::WaitingSample& sample : group.samples)
        ++staleness_[parts[b]->version - sample.version];
    }
  }
}

// Whoever waits has its own patience if this does not arrive.
void StepsOfBuffers::give_up(std::int64_t number, const std::string& why) noexcept {
  for (JobClient& client : clients_) {
    try {
      client.give_up(number, why);
    } catch (...) {
      continue;
    }
  }
}

// One that is over answers at once; the first of the others is waited for.
StepsOfBuffers::Looked StepsOfBuffers::look_for_parts(std::int64_t number, Parts& parts,
                                                      std::chrono::seconds time, Patience& patience) {
  Looked looked;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b]) continue;
    JobStep come = until_reached(patience, [&] { return clients_[b].wait_for_step(number, time); });
    if (come.step) {
      parts[b] = std::move(come.step);
      continue;
    }
    require_in_turn(number, come);
    looked.ready += come.ready_groups;
    looked.open += come.open_groups;
    keep_latest(looked.since_last_sample, come.since_last_sample);
    if (!come.failure.empty()) looked.failure = come.failure;
    if (come.is_over) continue;
    looked.are_over = false;
    time = no_wait;
  }
  return looked;
}

StepsOfBuffers::Parts StepsOfBuffers::wait_for(std::int64_t number) {
  Patience patience = this->patience(false);
  Parts parts(clients_.size());
  while (true) {
    const Looked looked = look_for_parts(number, parts, one_wait, patience);
    if (is_whole(parts)) return parts;
    if (looked.are_over && !is_begun(parts)) throw_end();
    if (!looked.failure.empty()) throw InputError("the rank that forms steps", looked.failure);
    if (looked.are_over) std::this_thread::sleep_for(pause_for_parts);  // they are about to get empty parts
    patience.waits_for({number, 1, looked.ready, looked.open, looked.since_last_sample});
  }
}

StepsOfBuffers::Parts StepsOfBuffers::form(std::int64_t number, const FormingRules& rules) {
  Patience patience = this->patience(true);
  Parts parts(clients_.size());
  const Looked looked = look_for_parts(number, parts, no_wait, patience);
  if (is_whole(parts)) return parts;
  if (looked.are_over && !is_begun(parts)) throw_end();
  if (!looked.failure.empty()) give_up(number, "");  // not any more
  if (rules.publishes_steps) publish(number);
  // What is in a hurry may be anywhere in the queue; otherwise the window is at its front.
  const std::int64_t most = rules.stream.max_staleness ? std::numeric_limits<std::int32_t>::max()
                                                       : (1 + rules.stream.look_ahead) * rules.groups;
  while (true) {
    const auto waiting = wait_for_groups(parts, is_begun(parts) ? 0 : rules.groups, most, patience);
    if (publish_the_latest(parts, waiting, patience) || drop_what_is_filtered(rules, waiting, patience))
      continue;
    try_to_form(number, rules, waiting, parts, patience);
    if (is_whole(parts)) return parts;
    if (is_begun(parts)) continue;
    const InAll all = in_all(parts, waiting);
    if (all.has_ended && all.ready + all.open == 0) throw_end();
    patience.waits_for({number, rules.groups, all.ready, all.open, all.since_last_sample});
  }
}

// Which buffer of several gets the groups that lack is not known: each is waited for in turn, for a moment.
std::vector<JobWaiting> StepsOfBuffers::wait_for_groups(const Parts& parts, std::int64_t enough,
                                                        std::int64_t most, Patience& patience) {
  const auto look = [&](std::size_t b, std::int64_t groups, std::int64_t first,
                        std::chrono::milliseconds time) {
    return until_reached(patience, [&] { return clients_[b].wait_for(groups, first, time); });
  };
  const auto look_at_all = [&](std::int64_t first) {
    std::vector<JobWaiting> waiting(parts.size());
    for (std::size_t b = 0; b < parts.size(); ++b)
      if (!parts[b]) waiting[b] = look(b, 0, first, no_wait);
    return waiting;
  };
  if (parts.size() == 1) return {look(0, enough, most, one_wait)};
  for (const Clock::time_point begun = Clock::now(); Clock::now() - begun < one_wait;) {
    const std::vector<JobWaiting> waiting = look_at_all(0);
    const InAll all = in_all(parts, waiting);
    if (all.ready >= enough || all.has_ended) break;
    do looks_next_ = (looks_next_ + 1) % parts.size();
    while (waiting[looks_next_].has_ended);
    look(looks_next_, waiting[looks_next_].ready_groups + enough - all.ready, 0, one_look);
  }
  return look_at_all(most);
}

// A trainer that was killed may have told some of the buffers alone.
bool StepsOfBuffers::publish_the_latest(const Parts& parts, std::span<const JobWaiting> waiting,
                                        Patience& patience) {
  std::int64_t latest = 0;
  for (const JobWaiting& of_buffer : waiting) latest = std::max(latest, of_buffer.version);
  bool has_published = false;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b] || waiting[b].version == latest) continue;
    until_reached(patience, [&] { clients_[b].publish(latest); });
    has_published = true;
  }
  return has_published;
}

bool StepsOfBuffers::drop_what_is_filtered(const FormingRules& rules, std::span<const JobWaiting> waiting,
                                           Patience& patience) {
  bool has_dropped = false;
  for (std::size_t b = 0; b < waiting.size(); ++b) {
    std::vector<std::int64_t> dropped;
    for (const stream::WaitingGroup& group : waiting[b].groups) {
      for (const stream::WaitingSample& sample : group.samples) {
        const std::int64_t tokens = sample.prompt + sample.response;
        if ((rules.drops_empty && tokens == 0) || (rules.drops_above && tokens > *rules.drops_above))
          dropped.push_back(sample.arrival);
      }
    }
    if (dropped.empty()) continue;
    until_reached(patience, [&] { clients_[b].drop_filtered(dropped); });
    has_dropped = true;
  }
  return has_dropped;
}

// A producer may abort a group in the meantime, or the trainer publish a version: then what waits is looked
// at again. What is written down by then stays.
void StepsOfBuffers::try_to_form(std::int64_t number, const FormingRules& rules,
                                 std::span<const JobWaiting> waiting, Parts& parts, Patience& patience) {
  std::vector<std::vector<stream::WaitingGroup>> groups(parts.size());
  std::vector<std::int64_t> versions(parts.size());
  std::vector<std::int64_t> coming;
  std::int64_t needed = rules.groups;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b]) {
      needed -= std::ssize(parts[b]->groups);
      continue;
    }
    groups[b] = waiting[b].groups;
    versions[b] = waiting[b].version;
    coming.insert(coming.end(), waiting[b].coming.begin(), waiting[b].coming.end());
  }
  const std::int64_t version = std::ranges::max(versions);
  const std::vector<stream::WaitingGroup> joint = stream::joint_groups(groups, access_.urls);
  const bool is_last = in_all(parts, waiting).has_ended || is_begun(parts);
  std::optional<stream::StepFormed> formed;
  if (needed > 0)
    formed = stream::form_step({joint, coming, number, version, needed, is_last, rules.stream, rules.plan});
  if (!formed && !is_begun(parts)) return;
  const std::vector<stream::StepFormed> of_buffers =
      stream::parts_of(formed.value_or(stream::StepFormed{number, version, {}, {}, {}}), joint, versions);
  try {
    for (std::size_t b = 0; b < parts.size(); ++b) {
      if (parts[b]) continue;
      until_reached(patience, [&] { clients_[b].form(of_buffers[b]); });
    }
  } catch (const InputError&) {
    if (++changes_ > most_changes) throw;
  }
  look_for_parts(number, parts, no_wait, patience);
  if (is_whole(parts)) changes_ = 0;
}

RaggedBatch StepsOfBuffers::read(std::span<const std::int64_t> numbers) {
  Patience patience = this->patience(false);
  std::vector<FieldsOfPart> fields;
  for (std::size_t b = 0; b < clients_.size(); ++b) {
    if (!has_samples_[b]) continue;
    if (!schemas_[b]) schemas_[b] = until_reached(patience, [&] { return clients_[b].schema(); });
    fields.push_back({access_.urls[b], fields_of(*schemas_[b])});
  }
  const std::vector<SourceField> agreed = agreed_fields(fields, "buffers");
  if (numbers.empty()) return {};
  const auto read_of = [&](std::size_t b, std::span<const std::int64_t> arrivals) {
    const std::string lines = until_reached(patience, [&] { return clients_[b].lines(arrivals); });
    return sent_samples(lines, arrivals, *schemas_[b], formats_);
  };
  if (clients_.size() == 1) return read_of(0, numbers);

  std::vector<std::vector<std::int64_t>> arrivals(clients_.size());
  std::vector<Cut> cuts;
  for (const std::int64_t number : numbers) {
    const std::size_t b = arrivals_.ledger_of(number);
    cuts.push_back({b, std::ssize(arrivals[b]), {}, SampleId{number}, 0});
    arrivals[b].push_back(arrivals_.arrival_of(number));
  }
  std::vector<RaggedBatch> batches(clients_.size());
  for (std::size_t b = 0; b < clients_.size(); ++b)
    if (!arrivals[b].empty()) batches[b] = as_agreed(read_of(b, arrivals[b]), agreed);
  for (Cut& cut : cuts) {
    const SampleShape& sample =
        std::as_const(batches[cut.batch]).samples()[static_cast<std::size_t>(cut.index)];
    cut.tokens = {0, sample.length()};
    cut.group = sample.group;
  }
  return cut_samples(batches, cuts);
}

// A trainer asks between two steps, and is not to wait for a buffer that it does not need for the next one.
ArrivalFigures StepsOfBuffers::figures() {
  ArrivalFigures sum;
  for (std::size_t b = 0; b < clients_.size(); ++b) {
    const auto ask = [&] { figures_[b] = figures_of(nlohmann::json::parse(clients_[b].status())); };
    if (!figures_[b]) {
      Patience patience = this->patience(true);
      until_reached(patience, ask);
    } else if (const bool is_known = tried_for_a_moment(ask); is_known != are_figures_known_[b]) {
      are_figures_known_[b] = is_known;
      if (!is_known)
        note_waiting("the buffer at " + access_.urls[b] +
                     " cannot be reached: figures of samples stay as they were");
    }
    sum += *figures_[b];
  }
  return sum;
}

void StepsOfBuffers::add_steps_to(ArrivalFigures& figures) const {
  const std::lock_guard lock(steps_mutex_);
  figures.staleness = staleness_;
  figures.waited = waited_;
}

void StepsOfBuffers::publish(std::int64_t version) {
  Patience patience = this->patience(true);
  for (JobClient& client : clients_) until_reached(patience, [&] { client.publish(version); });
}

bool StepsOfBuffers::trained(std::int64_t step) {
  return std::ranges::count_if(clients_, [&](JobClient& client) {
           return tried_for_a_moment([&] { client.trained(step); });
         }) == std::ssize(clients_);
}

void StepsOfBuffers::wait_until_told_that_trained(std::int64_t step) {
  Patience patience = this->patience(true);
  for (JobClient& client : clients_) until_reached(patience, [&] { client.trained(step); });
}

}  // namespace evenkeel
