#include "stream/ledger.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::stream {
namespace {

Amount amount_of(const WaitingSample& sample) noexcept {
  return {1, sample.prompt, sample.response};
}
Amount amount_of(const SampleAccepted& sample) noexcept {
  return {1, sample.prompt, sample.response};
}

[[noreturn]] void reject(std::int64_t number, const std::string& message) {
  throw InputError("event " + std::to_string(number), message);
}

/// Sorts both lists of `changes`, and keeps only the last value of each slot.
void sort_and_deduplicate(Changes& changes) {
  std::ranges::sort(changes.superseded);
  std::ranges::stable_sort(changes.seen, {}, &SeenSlot::slot);
  std::vector<SeenSlot> latest;
  for (const SeenSlot& seen : changes.seen) {
    if (!latest.empty() && latest.back().slot == seen.slot) latest.pop_back();
    latest.push_back(seen);
  }
  changes.seen = std::move(latest);
}

}  // namespace

std::int64_t WaitingGroup::version() const noexcept {
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  for (const WaitingSample& sample : samples) oldest = std::min(oldest, sample.version);
  return oldest;
}

std::string uid_rejection_reason(const Uid& uid) {
  const auto* const text = std::get_if<std::string>(&uid);
  if (text == nullptr) return "";
  if (text->empty()) return "has an empty uid. Give all responses to one prompt the same non-empty uid";
  if (std::ssize(*text) <= max_uid_bytes) return "";
  return "has a uid of " + std::to_string(text->size()) + " bytes, but at most " +
         std::to_string(max_uid_bytes) + " are allowed. Give its group a shorter name";
}

Amount& Amount::operator+=(const Amount& other) noexcept {
  samples += other.samples;
  prompt += other.prompt;
  response += other.response;
  return *this;
}

Amount& Amount::operator-=(const Amount& other) noexcept {
  samples -= other.samples;
  prompt -= other.prompt;
  response -= other.response;
  return *this;
}

Ledger::Ledger(StreamSettings settings, const Totals& totals, std::span<const SeenSlot> seen)
    : settings_(std::move(settings)),
      totals_(totals),
      restored_(totals.last_event),
      seen_(seen),
      received_(totals.trained) {
  settings_.validate();
  for (const Amount& dropped : totals_.dropped) received_ += dropped;
  for (const std::string& field : settings_.late_fields) missing_fields_[field] = 0;
}

std::optional<std::uint32_t> Ledger::content_hash_of(const SampleKey& key) const {
  const GroupKey group = group_key(key.uid);
  if (key.index < 0) return std::nullopt;
  if (const auto seen = seen_.content_hash(group, key.index)) return seen;
  if (const GroupState* state = find(group); state != nullptr) {
    for (const auto* const samples : {&state->samples, &state->withdrawn}) {
      const auto found = std::ranges::find(*samples, key.index, &WaitingSample::index);
      if (found != samples->end()) return found->content;
    }
  }
  for (const auto& [number, stray] : late_samples_)
    if (stray.key == key) return stray.content;
  return std::nullopt;
}

const WaitingSample* Ledger::find_sample(const SampleKey& key) const {
  const GroupState* const group = find(group_key(key.uid));
  if (group == nullptr) return nullptr;
  const auto sample = std::ranges::find(group->samples, key.index, &WaitingSample::index);
  return sample == group->samples.end() ? nullptr : &*sample;
}

std::span<const AddedFields> Ledger::fields_added_to(std::int64_t arrival) const {
  const auto added = added_.find(arrival);
  return added == added_.end() ? std::span<const AddedFields>() : added->second;
}

std::optional<std::uint32_t> Ledger::added_content_hash(std::int64_t arrival,
                                                        const std::string& field) const {
  for (const AddedFields& added : fields_added_to(arrival))
    if (const auto found = added.content.find(field); found != added.content.end()) return found->second;
  return std::nullopt;
}

bool Ledger::knows_group(const Uid& uid) const {
  const GroupKey key = group_key(uid);
  return groups_.contains(key) || has_finished_samples(key);
}

std::string Ledger::rejection_reason(const SampleAccepted& sample) const {
  const std::int64_t index = sample.key.index;
  if (std::holds_alternative<std::monostate>(sample.key.uid)) return "has no uid. Send the uid of its group";
  if (const std::string why = uid_rejection_reason(sample.key.uid); !why.empty()) return why;
  if (index < 0)
    return "has index " + std::to_string(index) + ". Number the responses to a prompt, starting at 0";
  if (index >= settings_.group_size) {
    return "has index " + std::to_string(index) + ", but a group has " +
           format_plain_count(settings_.group_size, "sample") +
           ", numbered from 0. Number the responses to a prompt from 0, or set the group size (--group-size, "
           "or "
           "stream.group_size) to the number of responses";
  }
  if (sample.version < 0) return "has version " + std::to_string(sample.version) + ". Versions begin at 0";
  if (sample.prompt < 0 || sample.response < 0 || sample.bytes < 0) return "has a negative length or size";
  if (totals_.ended) return "comes after the end of the stream. Start a new buffer for another stream";
  return "";
}

std::string Ledger::version_rejection_reason(std::int64_t version) const {
  if (!totals_.has_version || version <= totals_.version) return "";
  return "has version " + std::to_string(version) + ", but version " + std::to_string(totals_.version) +
         " of the policy is the latest that was published. Send the version of the policy that generated the "
         "sample, and let the trainer publish each version before producers get its weights";
}

Changes Ledger::apply(const Event& event) {
  if (event.number <= latest_)
    reject(event.number,
           "follows event " + std::to_string(latest_) + ", but numbers of events must increase");
  Changes changes;
  std::visit([&](const auto& what) { require_valid_event(event.number, what); }, event.what);
  latest_ = event.number;
  totals_.last_event = std::max(totals_.last_event, latest_);
  std::visit([&](const auto& what) { apply_event(event.number, what, changes); }, event.what);
  sort_and_deduplicate(changes);
  return changes;
}

const GroupState* Ledger::find(const GroupKey& key) const noexcept {
  const auto found = groups_.find(key);
  return found == groups_.end() ? nullptr : &found->second;
}

// Preconditions of events. Replayed events were checked when they were first applied.

void Ledger::require_valid_event(std::int64_t number, const SampleAccepted& sample) const {
  if (is_known(sample.key))
    reject(number, "sample " + std::to_string(sample.key.index) + " of " + to_text(sample.key.uid) +
                       " was already accepted");
  if (is_replay(number)) {
    if (std::min({sample.key.index, sample.prompt, sample.response, sample.version, sample.bytes}) < 0)
      reject(number, "a sample of " + to_text(sample.key.uid) + " has a negative number");
    return;
  }
  if (const std::string why = rejection_reason(sample); !why.empty())
    reject(number,
           "sample " + std::to_string(sample.key.index) + " of " + to_text(sample.key.uid) + " " + why);
}

void Ledger::require_valid_event(std::int64_t number, const FieldsAdded& fields) const {
  const WaitingSample* const sample = find_sample(fields.key);
  const std::string name = "sample " + std::to_string(fields.key.index) + " of " + to_text(fields.key.uid);
  if (sample == nullptr || step_of(fields.key.uid))
    reject(number, name + " is not waiting, so no field can be added to it");
  for (const auto& [field, content] : fields.content) {
    if (!is_replay(number) && !missing_fields_.contains(field))
      reject(number, "field '" + field + "' of " + name + " is not a late field");
    if (added_content_hash(sample->arrival, field))
      reject(number, "field '" + field + "' of " + name + " was already added");
  }
}

void Ledger::require_valid_event(std::int64_t number, const GroupAborted& aborted) const {
  if (is_replay(number) || !aborted.index) return;
  if (*aborted.index < 0 || *aborted.index >= settings_.group_size)
    reject(number, "index " + std::to_string(*aborted.index) + " is outside a group of " +
                       std::to_string(settings_.group_size));
}

void Ledger::require_valid_event(std::int64_t number, const SamplesDropped& dropped) const {
  std::set<std::int64_t> all;
  for (const std::int64_t arrival : dropped.arrivals) {
    if (!(group_of_.contains(arrival) || late_samples_.contains(arrival)) || !all.insert(arrival).second)
      reject(number, "arrival " + std::to_string(arrival) + " is not waiting, so it cannot be dropped");
  }
}

void Ledger::require_valid_event(std::int64_t number, const StepFormed& formed) const {
  const std::string step = "step " + std::to_string(formed.step);
  if (!steps_.empty() && formed.step != steps_.rbegin()->first + 1)
    reject(number, step + " was formed, but the next step is " + std::to_string(steps_.rbegin()->first + 1));
  const bool is_old = is_replay(number);
  // The step has been trained since, so its groups no longer exist during a replay.
  if (is_old && totals_.trained_step && formed.step <= *totals_.trained_step) return;
  if (!is_old && steps_.empty() && totals_.trained_step && formed.step != *totals_.trained_step + 1)
    reject(number, step + " was formed, but the next step is " + std::to_string(*totals_.trained_step + 1));
  if (!is_old && formed.version != totals_.version)
    reject(number, step + " was formed at version " + std::to_string(formed.version) +
                       ", but the current version is " + std::to_string(totals_.version));
  if (!is_old && formed.groups.empty()) reject(number, step + " has no groups");
  std::set<GroupKey> all;
  for (const FormedGroup& group : formed.groups) {
    const GroupKey key = group_key(group.uid);
    const GroupState* state = find(key);
    const bool waits = state != nullptr && !state->step && (state->ready_key || is_old);
    if (!waits || !all.insert(key).second)
      reject(number, step + " has group " + to_text(group.uid) + ", which is not waiting for a step");
    if (!is_old && std::ssize(state->samples) != group.samples)
      reject(number, step + " lists " + format_plain_count(group.samples, "sample") + " for group " +
                         to_text(group.uid) + ", which has " + std::to_string(state->samples.size()));
  }
}

void Ledger::require_valid_event(std::int64_t number, const StepTrained& trained) const {
  if (totals_.trained_step && trained.step <= *totals_.trained_step) return;
  const bool skips = trained.skips && (steps_.empty() || steps_.rbegin()->first < trained.step);
  if (!skips && !steps_.contains(trained.step))
    reject(number, "step " + std::to_string(trained.step) + " was trained but never formed");
}

// Effects of events.

GroupState& Ledger::find_or_begin_group(const Uid& uid, const GroupKey& key, std::int64_t number,
                                        const std::string& holder) {
  const auto [found, is_new] = groups_.try_emplace(key);
  GroupState& group = found->second;
  if (!is_new) return group;
  group.uid = uid;
  for (const std::int64_t index : seen_.indexes(key, settings_.group_size)) group.gone.insert(index);
  if (!is_replay(number) && !has_finished_samples(key)) use_ticket(holder);
  return group;
}

bool Ledger::has_finished_samples(const GroupKey& key) const {
  return seen_.has_ended(key) || !seen_.indexes(key, settings_.group_size).empty();
}

void Ledger::use_ticket(const std::string& holder) {
  std::vector<OpenTickets>& tickets = totals_.tickets;
  if (tickets.empty()) return;
  auto used = std::ranges::find(tickets, holder, &OpenTickets::holder);
  if (used == tickets.end()) used = tickets.begin();
  if (--used->groups == 0) tickets.erase(used);
}

void Ledger::apply_event(std::int64_t number, const SampleAccepted& sample, Changes& changes) {
  const GroupKey key = group_key(sample.key.uid);
  received_ += amount_of(sample);
  waiting_ += amount_of(sample);
  bytes_ += sample.bytes;
  const GroupState* known = find(key);
  if (seen_.has_ended(key) || (known != nullptr && known->drops_new_samples())) {
    late_samples_.emplace(number, sample);
    due_.emplace(number, DropReason::late);
    return;
  }
  std::vector<WaitingSample>& samples =
      find_or_begin_group(sample.key.uid, key, number, sample.holder).samples;
  const WaitingSample waiting{number,         sample.key.index, sample.prompt,  sample.response,
                              sample.version, sample.bytes,     sample.content, std::ssize(missing_fields_)};
  for (auto& [field, number_missing] : missing_fields_) ++number_missing;
  samples.insert(std::ranges::upper_bound(samples, waiting.index, {}, &WaitingSample::index), waiting);
  group_of_.emplace(number, key);
  reevaluate_group(key, changes);
}

void Ledger::apply_event(std::int64_t number, const FieldsAdded& fields, Changes& changes) {
  const GroupKey key = group_key(fields.key.uid);
  GroupState& group = groups_.at(key);
  WaitingSample& sample = *std::ranges::find(group.samples, fields.key.index, &WaitingSample::index);
  for (const auto& [field, content] : fields.content) {
    const auto missing = missing_fields_.find(field);
    if (missing == missing_fields_.end())
      continue;  // replay under other settings, which the buffer rejects later
    --missing->second;
    --sample.missing;
  }
  bytes_ += fields.bytes;
  added_[sample.arrival].push_back({number, fields.bytes, fields.content});
  group.events.push_back(number);
  reevaluate_group(key, changes);
}

void Ledger::apply_event(std::int64_t number, const DuplicatesReported& told, Changes& changes) {
  if (!is_replay(number)) totals_.duplicates += told.count;
  changes.superseded.push_back(number);
}

void Ledger::apply_event(std::int64_t number, const GroupClosed& closed, Changes& changes) {
  const GroupKey key = group_key(closed.uid);
  const auto found = groups_.find(key);
  const bool lacks_fields = found != groups_.end() && found->second.closed && found->second.open_key;
  const bool is_late = closed.by_deadline && lacks_fields;
  if (found == groups_.end() || (found->second.drops_new_samples() && !is_late)) {
    changes.superseded.push_back(number);
    return;
  }
  found->second.closed = true;
  found->second.expired = closed.by_deadline;
  found->second.events.push_back(number);
  reevaluate_group(key, changes);
}

void Ledger::apply_event(std::int64_t number, const GroupAborted& aborted, Changes& changes) {
  const GroupKey key = group_key(aborted.uid);
  if (aborted.in_step) return withdraw_group(number, key, changes);
  const GroupState* known = find(key);
  const bool is_in_step = known != nullptr && known->step;
  const bool is_gone =
      known != nullptr && (known->aborted || (aborted.index && known->gone.contains(*aborted.index)));
  if (!is_replay(number) && (seen_.has_ended(key) || is_in_step || is_gone)) {
    changes.superseded.push_back(number);
    return;
  }
  GroupState& group = find_or_begin_group(aborted.uid, key, number, {});
  if (aborted.index) {
    group.gone.insert(*aborted.index);
  } else {
    group.aborted = true;
  }
  group.events.push_back(number);
  reevaluate_group(key, changes);
}

void Ledger::apply_event(std::int64_t number, const VersionPublished& published, Changes& changes) {
  changes.superseded.push_back(number);
  totals_.has_version = true;
  if (published.version <= totals_.version) return;
  totals_.version = published.version;
  std::vector<GroupKey> stale;
  for (const auto& [key, group] : groups_) {
    const auto is_stale = [&](const WaitingSample& s) {
      return settings_.is_stale(s.version, totals_.version);
    };
    if (!group.step && std::ranges::any_of(group.samples, is_stale)) stale.push_back(key);
  }
  for (const GroupKey& key : stale) reevaluate_group(key, changes);
}

void Ledger::apply_event(std::int64_t number, const SamplesDropped& dropped, Changes& changes) {
  changes.superseded.push_back(number);
  Amount& reason = totals_.dropped[static_cast<std::size_t>(dropped.reason)];
  std::set<GroupKey> touched;
  for (const std::int64_t arrival : dropped.arrivals) {
    changes.superseded.push_back(arrival);
    due_.erase(arrival);
    const auto drop_sample = [&](const GroupKey& key, std::int64_t index, const auto& sample) {
      reason += amount_of(sample);
      waiting_ -= amount_of(sample);
      bytes_ -= sample.bytes;
      record_seen(key, index, sample.content, changes);
    };
    if (const auto stray = late_samples_.find(arrival); stray != late_samples_.end()) {
      drop_sample(group_key(stray->second.key.uid), stray->second.key.index, stray->second);
      late_samples_.erase(stray);
      continue;
    }
    const GroupKey key = group_of_.at(arrival);
    GroupState& group = groups_.at(key);
    const auto sample = std::ranges::find(group.samples, arrival, &WaitingSample::arrival);
    drop_sample(key, sample->index, *sample);
    for (auto& [field, number_missing] : missing_fields_)
      if (!added_content_hash(arrival, field)) --number_missing;
    remove_from_queues(group);  // first, since the queues are ordered by events that are removed below
    forget_added_fields(arrival, group, changes);
    group.gone.insert(sample->index);
    group.samples.erase(sample);
    group_of_.erase(arrival);
    touched.insert(key);
  }
  for (const GroupKey& key : touched) reevaluate_group(key, changes);
}

void Ledger::apply_event(std::int64_t number, const TicketsGranted& granted, Changes& changes) {
  changes.superseded.push_back(number);
  if (is_replay(number) || granted.groups <= 0) return;
  std::vector<OpenTickets>& tickets = totals_.tickets;
  tickets.push_back({totals_.version, granted.groups, granted.groups, granted.granted, granted.deadline,
                     granted.holder, granted.request});
}

void Ledger::apply_event(std::int64_t number, const TicketsExpired& expired, Changes& changes) {
  changes.superseded.push_back(number);
  if (is_replay(number)) return;
  std::erase_if(totals_.tickets, [&](const OpenTickets& open) {
    const bool has_ended = open.deadline <= expired.time || open.version < expired.version;
    if (has_ended) totals_.expired_tickets += open.groups;
    return has_ended;
  });
}

void Ledger::apply_event(std::int64_t number, const StepFormed& formed, Changes& changes) {
  if (!steps_.empty() && totals_.trained_step && steps_.rbegin()->first <= *totals_.trained_step) {
    changes.superseded.push_back(steps_.rbegin()->second.event);
    steps_.clear();
  }
  Step& step = steps_[formed.step];
  step = {number, formed.version, {}, formed.masked, std::ssize(formed.groups)};
  for (const PassedOver& passed : formed.passed)
    if (const auto found = groups_.find(group_key(passed.uid)); found != groups_.end())
      found->second.passed = passed.count;
  // The step has been trained since, so its groups no longer exist during a replay.
  if (totals_.trained_step && formed.step <= *totals_.trained_step) return;
  for (const FormedGroup& of : formed.groups) {
    const GroupKey key = group_key(of.uid);
    GroupState& group = groups_.at(key);
    remove_from_queues(group);
    group.step = formed.step;
    group.passed = 0;
    for (const WaitingSample& sample : group.samples) {
      waiting_ -= amount_of(sample);
      formed_ += amount_of(sample);
      if (!is_replay(number)) ++totals_.staleness[versions_behind(formed.version, sample.version)];
      group_of_.erase(sample.arrival);
      due_.erase(sample.arrival);
    }
    step.groups.push_back(key);
  }
}

void Ledger::apply_event(std::int64_t number, const StepTrained& trained, Changes& changes) {
  changes.superseded.push_back(number);
  if (totals_.trained_step && trained.step <= *totals_.trained_step) return;
  totals_.trained_step = trained.step;
  while (!steps_.empty() && steps_.begin()->first <= trained.step) {
    Step& step = steps_.begin()->second;
    for (const GroupKey& key : step.groups) remove_trained_group(key, changes);
    step.groups.clear();
    // Keep the latest step, since its event has the counts of passed-over groups. Do not keep it if later
    // steps were skipped.
    if (steps_.size() == 1 && steps_.begin()->first == trained.step) break;
    changes.superseded.push_back(step.event);
    steps_.erase(steps_.begin());
  }
}

void Ledger::apply_event(std::int64_t number, const StreamEnded& /*ended*/, Changes& changes) {
  changes.superseded.push_back(number);
  totals_.ended = true;
  std::vector<GroupKey> open;
  for (const auto& [key, group] : groups_)
    if (!group.step) open.push_back(key);
  for (const GroupKey& key : open) reevaluate_group(key, changes);
}

void Ledger::remove_trained_group(const GroupKey& key, Changes& changes) {
  GroupState& group = groups_.at(key);
  for (const WaitingSample& sample : group.samples) {
    formed_ -= amount_of(sample);
    totals_.trained += amount_of(sample);
  }
  for (const auto* const samples : {&group.samples, &group.withdrawn}) {
    for (const WaitingSample& sample : *samples) {
      forget_added_fields(sample.arrival, group, changes);
      bytes_ -= sample.bytes;
      record_seen(key, sample.index, sample.content, changes);
      changes.superseded.push_back(sample.arrival);
    }
  }
  changes.seen.push_back(seen_.mark_ended(key));
  changes.superseded.insert(changes.superseded.end(), group.events.begin(), group.events.end());
  groups_.erase(key);
}

// Withdraws a group's samples from its step and counts them as dropped. The store keeps the samples until the
// step is trained, because a replay needs them to form the step.
void Ledger::withdraw_group(std::int64_t number, const GroupKey& key, Changes& changes) {
  const auto found = groups_.find(key);
  if (found == groups_.end() || !found->second.step || found->second.samples.empty()) {
    changes.superseded.push_back(number);
    return;
  }
  GroupState& group = found->second;
  for (const WaitingSample& sample : group.samples) {
    formed_ -= amount_of(sample);
    if (is_replay(number))
      received_ -= amount_of(sample);  // the restored totals already count this sample as dropped
    else
      totals_.dropped[static_cast<std::size_t>(DropReason::aborted)] += amount_of(sample);
  }
  group.withdrawn = std::exchange(group.samples, {});
  group.events.push_back(number);
}

void Ledger::record_seen(const GroupKey& key, std::int64_t index, std::uint32_t content, Changes& changes) {
  const std::array<SeenSlot, 2> slots = seen_.add(key, index, content);
  changes.seen.insert(changes.seen.end(), slots.begin(), slots.end());
}

void Ledger::remove_from_queues(GroupState& group) {
  if (group.ready_key) ready_.erase(*group.ready_key);
  if (group.open_key) open_.erase(*group.open_key);
  group.ready_key.reset();
  group.open_key.reset();
}

/// Forgets the fields that were added to a sample that leaves the ledger, and lets the store delete their
/// values.
void Ledger::forget_added_fields(std::int64_t arrival, GroupState& group, Changes& changes) {
  for (const AddedFields& added : fields_added_to(arrival)) {
    bytes_ -= added.bytes;
    std::erase(group.events, added.number);
    changes.superseded.push_back(added.number);
  }
  added_.erase(arrival);
}

void Ledger::reevaluate_group(const GroupKey& key, Changes& changes) {
  GroupState& group = groups_.at(key);
  remove_from_queues(group);
  for (const WaitingSample& sample : group.samples) due_.erase(sample.arrival);
  const GroupVerdict verdict = evaluate_group(group, settings_, totals_.version, totals_.ended);
  for (const auto& [arrival, reason] : verdict.due) due_.emplace(arrival, reason);
  // A replay does not end groups: seen_ already contains the groups that have ended, and a replayed abort may
  // precede the samples of its group.
  const bool has_ended = verdict.is_over && !is_replay(latest_);
  if (has_ended || (group.samples.empty() && group.events.empty())) {
    if (has_ended) changes.seen.push_back(seen_.mark_ended(key));
    changes.superseded.insert(changes.superseded.end(), group.events.begin(), group.events.end());
    groups_.erase(key);
  } else if (verdict.is_ready) {
    group.ready_key = group.last_event();
    ready_.emplace(*group.ready_key, key);
  } else {
    group.open_key = group.first_event();
    open_.emplace(*group.open_key, key);
  }
}

// Queries.

std::vector<SamplesDropped> Ledger::due_drops() const {
  std::vector<SamplesDropped> drops;
  for (std::size_t reason = 0; reason < num_drop_reasons; ++reason) {
    SamplesDropped drop{{}, static_cast<DropReason>(reason)};
    for (const auto& [arrival, why] : due_)
      if (why == drop.reason) drop.arrivals.push_back(arrival);
    if (!drop.arrivals.empty()) drops.push_back(std::move(drop));
  }
  return drops;
}

std::vector<WaitingGroup> Ledger::ready() const {
  std::vector<WaitingGroup> ready;
  ready.reserve(ready_.size());
  for (const auto& [place, key] : ready_) {
    const GroupState& group = groups_.at(key);
    ready.push_back({group.uid, place, group.passed, group.samples});
  }
  return ready;
}

std::vector<FormedStep> Ledger::untrained_steps(std::int64_t from_step) const {
  std::vector<FormedStep> formed;
  for (auto at = steps_.lower_bound(from_step); at != steps_.end(); ++at) {
    if (totals_.trained_step && at->first <= *totals_.trained_step) continue;
    FormedStep& step = formed.emplace_back(FormedStep{at->first, at->second.version, {}, at->second.masked});
    for (const GroupKey& key : at->second.groups) {
      const GroupState& group = groups_.at(key);
      if (!group.withdrawn.empty()) continue;
      step.groups.push_back({group.uid, group.last_event(), group.passed, group.samples});
    }
  }
  return formed;
}

std::optional<std::int64_t> Ledger::step_of(const Uid& uid) const {
  const GroupState* const state = find(group_key(uid));
  return state == nullptr || state->samples.empty() ? std::nullopt : state->step;
}

std::vector<Uid> Ledger::open_groups() const {
  std::vector<Uid> open;
  open.reserve(open_.size());
  for (const auto& [first, key] : open_) open.push_back(groups_.at(key).uid);
  return open;
}

std::vector<std::int64_t> Ledger::versions_of_expected_groups() const {
  std::vector<std::int64_t> versions;
  for (const auto& [first, key] : open_) {
    std::int64_t oldest = totals_.version;
    for (const WaitingSample& sample : groups_.at(key).samples) {
      if (!settings_.is_stale(sample.version, totals_.version)) oldest = std::min(oldest, sample.version);
    }
    versions.push_back(oldest);
  }
  if (!settings_.limits_tickets()) return versions;
  for (const OpenTickets& open : totals_.tickets) {
    if (settings_.is_stale(open.version, totals_.version)) continue;
    versions.insert(versions.end(), static_cast<std::size_t>(open.groups), open.version);
  }
  return versions;
}

std::int64_t Ledger::count_grantable_groups(std::int64_t groups_per_step) const {
  if (!settings_.limits_tickets()) return std::numeric_limits<std::int64_t>::max();
  if (std::ssize(totals_.tickets) >= max_grants) return 0;
  std::int64_t left = (*settings_.max_staleness + 1) * groups_per_step;
  left -= std::ssize(open_) + std::ssize(ready_);
  for (const auto& [number, step] : steps_)
    if (step.version == totals_.version) left -= step.num_groups;
  std::int64_t open = 0;
  for (const OpenTickets& grant : totals_.tickets) open += grant.groups;
  return std::max(std::min(left, max_tickets) - open, std::int64_t{0});
}

const OpenTickets* Ledger::find_earlier_grant(const std::string& holder,
                                              const std::string& request) const noexcept {
  if (request.empty()) return nullptr;
  for (const OpenTickets& open : totals_.tickets)
    if (open.request == request && open.holder == holder) return &open;
  return nullptr;
}

std::optional<std::int64_t> Ledger::next_ticket_deadline() const noexcept {
  if (totals_.tickets.empty()) return std::nullopt;
  return std::ranges::min(totals_.tickets, {}, &OpenTickets::deadline).deadline;
}

Status Ledger::status() const {
  Status status;
  status.version = totals_.version;
  status.ended = totals_.ended;
  status.open_groups = std::ssize(open_);
  status.ready_groups = std::ssize(ready_);
  for (const auto& [number, step] : steps_) {
    status.formed_groups += std::ranges::count_if(
        step.groups, [&](const GroupKey& key) { return groups_.at(key).withdrawn.empty(); });
  }
  status.received = received_;
  status.waiting = waiting_;
  status.formed = formed_;
  status.trained = totals_.trained;
  status.dropped = totals_.dropped;
  status.duplicates = totals_.duplicates;
  status.staleness = totals_.staleness;
  for (const OpenTickets& open : totals_.tickets) status.tickets += open.groups;
  status.expired_tickets = totals_.expired_tickets;
  status.missing_fields = missing_fields_;
  if (!totals_.tickets.empty()) status.oldest_tickets = totals_.tickets.front();
  status.seen_bytes = seen_.bytes();
  status.bytes = bytes_ + status.seen_bytes;
  if (!steps_.empty()) status.formed_step = steps_.rbegin()->first;
  status.trained_step = totals_.trained_step;
  return status;
}

}  // namespace evenkeel::stream
