#include "buffer/buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/text/parse_number.hpp"
#include "base/text_layout.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "buffer/ledger_notes.hpp"
#include "buffer/server_json.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/sample_fields.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_bytes_of_body = std::int64_t{64} << 20;
constexpr const char* totals_note = "totals";
constexpr const char* tickets_note = "tickets";
constexpr const char* schema_note = "schema";
constexpr const char* late_schema_note = "late_schema";
constexpr const char* groups_note = "groups_per_step";
constexpr const char* job_note = "job";
constexpr const char* identity_note = "identity";
constexpr const char* settings_note = "settings";
constexpr const char* formats_note = "formats";

/// Throws InputError if the reason for which a group is aborted is too long to be stored.
void require_storable_reason(const std::string& reason) {
  if (std::ssize(reason) <= stream::max_reason_bytes) return;
  throw InputError("reason",
                   "has " + std::to_string(reason.size()) + " bytes, but at most " +
                       std::to_string(stream::max_reason_bytes) + " are allowed",
                   "Send a shorter reason");
}

bool holds_samples(const stream::Status& status) {
  return status.waiting.samples + status.formed.samples > 0;
}

std::int64_t current_time_ms() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
}

/// Throws FieldsError for a sample with a key that was accepted before with different content. `where` is the
/// sample's location in the request.
[[noreturn]] void reject_other_content(const std::string& where, const stream::SampleKey& key) {
  throw FieldsError(
      where,
      "sample " + std::to_string(key.index) + " of group " + stream::to_text(key.uid) +
          " was already received with different content",
      "Give each response of a group an index of its own. To resend a sample, send identical content");
}

/// Returns the uid if the text is a 64-bit integer in canonical decimal digits, otherwise nullopt.
std::optional<Uid> integer_uid_of(const std::string& name) {
  const auto value = parse_as<std::int64_t>(name);
  if (value && std::to_string(*value) == name) return *value;
  const auto large = parse_as<std::uint64_t>(name);
  if (large && std::to_string(*large) == name) return *large;
  return std::nullopt;
}

/// Returns "without late fields", "with the late field a" or "with the late fields a, b".
std::string describe_late_fields(const std::vector<std::string>& fields) {
  if (fields.empty()) return "without late fields";
  return (fields.size() == 1 ? "with the late field " : "with the late fields ") + join(fields);
}

/// Returns 128 random bits in hexadecimal, used as the identity of a new store.
std::string make_random_identity() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace

/// Changes that one transaction makes to the ledger and the store.
struct Buffer::Change {
  Buffer& buffer;
  StoreChange store{};
  std::int64_t cost = 0;     // maximum bytes of capacity that new samples, fields and aborts use
  std::int64_t applied = 0;  // number of events applied to the ledger

  std::int64_t apply(stream::Event::What what) {
    stream::Ledger& ledger = *buffer.ledger_;
    const stream::Event event{ledger.totals().last_event + 1, std::move(what)};
    stream::Changes changes = ledger.apply(event);
    ++applied;
    if (!std::ranges::binary_search(changes.superseded, event.number))
      store.events.emplace_back(event.number, serialize_event(event));
    store.erased.insert(store.erased.end(), changes.superseded.begin(), changes.superseded.end());
    store.seen.insert(store.seen.end(), changes.seen.begin(), changes.seen.end());
    return event.number;
  }

  /// Applies the drops that the settings require, and returns them.
  std::vector<stream::SamplesDropped> apply_due_drops() {
    std::vector<stream::SamplesDropped> dropped = buffer.ledger_->due_drops();
    for (const stream::SamplesDropped& samples : dropped) apply(samples);
    return dropped;
  }

  /// Removes records that the transaction both adds and erases, and adds the totals and, if changed, the
  /// tickets.
  void prepare_for_commit() {
    store.drop_erased_additions();
    const stream::Totals& totals = buffer.ledger_->totals();
    store.notes[totals_note] = serialize_totals(totals);
    if (totals.tickets == buffer.stored_tickets_) return;
    store.notes[tickets_note] = serialize_tickets(totals.tickets);
    buffer.stored_tickets_ = totals.tickets;
  }
};

Buffer::Buffer(std::unique_ptr<Store> store, stream::StreamSettings settings,
               const std::optional<DeclaredFormats>& declared)
    : store_(std::move(store)),
      settings_(settings),
      queue_("buffer", *store_,
             {.commit = [this](const Queue::Requests& requests) { return commit(requests); },
              .deadline = [this] { return next_commit_time(); },
              .after_commit = [this] { changed_.notify_all(); },
              .on_durable =
                  [this] {
                    const std::lock_guard lock(state_mutex_);
                    is_durable_ = true;
                  }}) {
  check_or_record_content(*store_, StoreContent::stream);
  load();
  require_same_group_rules();
  choose_formats(declared);
  write_store_notes();
  rules_ = json_of_rules(*this, identity_).dump();
  last_call_ = Clock::now();  // treats the restart as a call of the job, which may still be alive
  queue_.start_thread();
}

stream::StreamSettings read_settings(const Store& store) {
  const std::optional<std::string> rules = store.note(settings_note);
  if (!rules) throw InputError(store.name(), "was never used by a buffer", "Name the store of a buffer");
  return parse_settings(nlohmann::json::parse(*rules, nullptr, false));
}

Buffer::~Buffer() {
  stop();
}

void Buffer::stop() {
  queue_.stop();
  {
    const std::lock_guard lock(state_mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
}

void Buffer::write_store_notes() {
  StoreChange change;
  identity_ = store_->note(identity_note).value_or("");
  if (identity_.empty()) change.notes[identity_note] = identity_ = make_random_identity();
  if (const std::string rules = json_of(settings_).dump(); store_->note(settings_note) != rules)
    change.notes[settings_note] = rules;
  if (const std::string formats = serialize_formats(formats_); store_->note(formats_note) != formats)
    change.notes[formats_note] = formats;
  if (!change.notes.empty()) store_->commit(change);
  store_->make_durable();
}

/// Throws InputError if the store has untrained groups whose size or late fields differ from the settings.
/// Without this check, for example, two samples of a group of four would be taken for a complete group of
/// two.
void Buffer::require_same_group_rules() const {
  const stream::Status status = ledger_->status();
  const std::int64_t groups = status.open_groups + status.ready_groups + status.formed_groups;
  if (groups == 0 || !store_->note(settings_note)) return;
  const stream::StreamSettings before = read_settings(*store_);
  if (before.late_fields != settings_.late_fields) {
    throw InputError(
        store_->name(),
        "has untrained groups " + describe_late_fields(before.late_fields) + ", but the buffer was started " +
            describe_late_fields(settings_.late_fields),
        "Use the same late fields as before (--late-fields, or stream.late_fields), or a new store");
  }
  const std::int64_t kept = before.group_size;
  if (kept == settings_.group_size) return;
  throw InputError(store_->name(),
                   "has " + format_plain_count(groups, "untrained group") + " with a group size of " +
                       std::to_string(kept) + ", but the buffer was started with a group size of " +
                       std::to_string(settings_.group_size),
                   "Use the same group size as before (--group-size, or stream.group_size), or a new store");
}

void Buffer::choose_formats(const std::optional<DeclaredFormats>& declared) {
  const std::optional<std::string> note = store_->note(formats_note);
  const DeclaredFormats kept = note ? parse_formats(*note) : stream_formats();
  formats_ = declared ? add_stream_formats(*declared, "formats of fields") : kept;
  for (const std::string& field : settings_.late_fields) {
    require_usable_name({field, DType::float32, FieldKind::sample, {}});
    if (formats_.contains(field))
      throw ConfigError("field '" + field + "'",
                        "has a declared format (--read-as, or fields.NAME.read_as), but it is a late field "
                        "(--late-fields, or stream.late_fields), and late fields cannot have one",
                        "Remove one of the two settings");
  }
  if (schema_.empty || formats_ == kept) return;
  throw InputError(
      store_->name(),
      "has samples in the format " + describe_formats(kept) + ", but the buffer is configured to read " +
          describe_formats(formats_),
      "Declare the same formats as before (--read-as, or fields.NAME.read_as), or use a new store");
}

void Buffer::load() {
  store_->refresh();
  const std::optional<std::string> totals = store_->note(totals_note);
  const std::optional<std::string> tickets = store_->note(tickets_note);
  const std::vector<stream::SeenSlot> seen = store_->seen_slots();
  stream::Totals known = totals ? parse_totals(*totals) : stream::Totals{};
  if (tickets) known.tickets = parse_tickets(*tickets);
  stored_tickets_ = known.tickets;
  auto ledger = std::make_unique<stream::Ledger>(settings_, known, seen);
  store_->read_events([&](std::int64_t number, std::string_view text) {
    try {
      static_cast<void>(ledger->apply(parse_serialized_event(text)));
    } catch (const InputError& error) {
      const ErrorReport& report = error.report();
      throw InputError(store_->name(),
                       "has an invalid event " + std::to_string(number) + ": " + report.message,
                       report.hint.empty() ? "Restore the store from a backup" : report.hint);
    }
  });
  const std::optional<std::string> schema = store_->note(schema_note);
  schema_ = schema ? parse_schema(*schema) : JsonlSchema{};
  form_ = schema ? parse_sample_form(*schema) : SampleForm::lines;
  const std::optional<std::string> late_schema = store_->note(late_schema_note);
  late_schema_ = late_schema ? parse_schema(*late_schema) : JsonlSchema{};
  if (const auto groups = store_->note(groups_note)) groups_per_step_ = parse_group_count(*groups);
  const std::optional<std::string> job = store_->note(job_note);
  job_ = job ? parse_job(*job) : CurrentJob{};
  ledger_ = std::move(ledger);
  opened_.clear();
  is_opened_.clear();
  for (const Uid& uid : ledger_->open_groups()) record_opened_group(uid);
  must_load_ = false;
}

/// Throws IoError if the ledger may differ from the store. Callers therefore never see state that is not
/// stored.
void Buffer::require_loaded() const {
  if (must_load_) throw IoError(store_->name(), "could not be written, and cannot be read yet", "Try again");
}

/// Applies the requests and commits them in one transaction. Returns whether the store has changed. A request
/// that fails before it changes the ledger gets its own error, and the other requests are committed. If a
/// request fails after it has changed the ledger, or if the store cannot be written, all requests fail.
bool Buffer::commit(const Queue::Requests& requests) {
  const std::lock_guard lock(state_mutex_);
  Change change{*this};
  try {
    if (must_load_) load();
    stored_ = ledger_->status();
    for (Queue::Request* request : requests) {
      const std::int64_t applied = change.applied;
      try {
        request->act(change);
      } catch (...) {
        if (change.applied != applied) throw;  // the ledger already contains some of the request's events
        request->error = std::current_exception();
      }
    }
    apply_deadlines(change);
    if (change.applied == 0 && change.store.notes.empty()) return false;
    change.prepare_for_commit();
    store_->commit(change.store);
    is_durable_ = store_->is_durable();
    return true;
  } catch (const LimitError& error) {
    const bool may_fit_later = holds_samples(stored_) || requests.size() > 1;
    if (store_->bytes_in_use() + change.cost <= store_->capacity()) {
      // The capacity is not the cause; for example, Redis may have reached its own memory limit.
      const ErrorReport& cause = error.report();
      full_reason_ = "is full: " + cause.where + " " + cause.message + ". " + cause.hint;
      fail_all_and_reload(requests, may_fit_later ? std::make_exception_ptr(FullError(cause))
                                                  : std::make_exception_ptr(LimitError(cause)));
      return false;
    }
    fail_all_and_reload(requests, may_fit_later ? std::make_exception_ptr(make_full_error())
                                                : std::make_exception_ptr(make_too_large_error(change.cost)));
  } catch (...) {
    fail_all_and_reload(requests, std::current_exception());
  }
  return false;
}

// Sets the error of all requests, and reloads the ledger from the store, since the ledger may contain events
// that were not stored.
void Buffer::fail_all_and_reload(const Queue::Requests& requests, const std::exception_ptr& error) {
  for (Queue::Request* request : requests) request->error = error;
  opened_.clear();  // deadlines are unknown until the ledger is loaded
  is_opened_.clear();
  if (std::exchange(must_load_, true)) return;  // commit() has just failed to load the ledger
  try {
    load();
  } catch (const Error&) {
    // The writer thread tries to load the ledger again with each commit and periodically.
  }
}

std::int64_t Buffer::max_body_bytes() const noexcept {
  return std::min(max_bytes_of_body, store_->capacity());
}

/// Returns the samples that the buffer does not have yet, without repetitions. `faults` is the result of
/// find_faults(), or empty if the samples were not checked for a job. Throws InputError or FieldsError if one
/// of the samples cannot be accepted.
std::vector<const ReceivedSample*> Buffer::select_new_samples(
    const ReceivedSamples& received, const std::vector<std::optional<ErrorReport>>& faults) const {
  std::vector<const ReceivedSample*> fresh;
  std::map<stream::SampleKey, std::uint32_t> in_request;
  for (std::size_t i = 0; i < received.samples().size(); ++i) {
    const ReceivedSample& sample = received.samples()[i];
    const stream::SampleKey& key = sample.accepted.key;
    std::optional<std::uint32_t> before = ledger_->content_hash_of(key);
    if (!before) {
      std::string why = ledger_->rejection_reason(sample.accepted);
      if (why.empty()) why = ledger_->version_rejection_reason(sample.accepted.version);
      if (!why.empty()) throw InputError(received.error_location(sample), why);
      if (i < faults.size() && faults[i])
        throw InputError(received.error_location(sample), faults[i]->message, faults[i]->hint);
      const auto [known, is_new] = in_request.emplace(key, sample.content);
      if (is_new) fresh.push_back(&sample);
      before = known->second;
    }
    if (*before != sample.content) reject_other_content(received.error_location(sample), key);
  }
  return fresh;
}

/// Throws an error if `cost` more bytes do not fit into the store in addition to those of `change`: FullError
/// if training the buffer's samples would make room, or LimitError if the buffer does not have samples.
void Buffer::require_room(const Change& change, std::int64_t cost) {
  if (store_->bytes_in_use() + change.cost + cost <= store_->capacity()) return;
  if (holds_samples(ledger_->status())) throw make_full_error();
  throw make_too_large_error(cost);
}

stream::SampleAccepted Buffer::make_accepted_event(const ReceivedSample& sample,
                                                   const std::string& holder) const {
  stream::SampleAccepted accepted = sample.accepted;
  accepted.bytes = store_->cost_of(std::ssize(sample.body));
  accepted.content = sample.content;
  if (!ledger_->knows_group(accepted.key.uid)) accepted.holder = holder;
  return accepted;
}

Intake Buffer::accept_samples(const ReceivedSamples& received, const std::string& holder) {
  std::int64_t bytes = 0;
  for (const ReceivedSample& sample : received.samples()) bytes += cost_of(sample, holder);
  if (bytes > store_->capacity()) throw make_too_large_error(bytes);
  const CurrentJob job = current_job();
  const std::vector<std::optional<ErrorReport>> faults =
      job.has_left ? std::vector<std::optional<ErrorReport>>() : find_faults(received, job.acceptance);
  Intake intake;
  queue_.submit(bytes, [&](Change& change) {
    require_same_acceptance(job);
    JsonlSchema schema = schema_with(received);
    const std::vector<const ReceivedSample*> fresh = select_new_samples(received, faults);
    std::int64_t cost = 0;
    for (const ReceivedSample* sample : fresh) cost += cost_of(*sample, holder);
    if (cost > 0) require_room(change, cost);
    change.cost += cost;
    std::vector<std::int64_t> arrivals;
    for (const ReceivedSample* sample : fresh) {
      arrivals.push_back(change.apply(make_accepted_event(*sample, holder)));
      change.store.bodies.push_back({arrivals.back(), sample->body});
      record_opened_group(sample->accepted.key.uid);
    }
    intake.duplicates = std::ssize(received.samples()) - std::ssize(fresh);
    if (intake.duplicates > 0) change.apply(stream::DuplicatesReported{intake.duplicates});
    for (const stream::SamplesDropped& dropped : change.apply_due_drops()) {
      const auto is_mine = [&](std::int64_t arrival) {
        return std::ranges::binary_search(arrivals, arrival);
      };
      (dropped.reason == stream::DropReason::stale ? intake.stale : intake.dropped) +=
          std::ranges::count_if(dropped.arrivals, is_mine);
    }
    intake.accepted = std::ssize(arrivals) - intake.stale - intake.dropped;
    intake.version = ledger_->version();
    if (!arrivals.empty()) {
      last_sample_ = Clock::now();
      full_reason_.clear();
    }
    if (schema.fields != schema_.fields || schema.kind_open != schema_.kind_open ||
        schema.element_open != schema_.element_open || schema.wide_integers != schema_.wide_integers ||
        schema_.empty) {
      if (schema_.empty) form_ = received.form();
      change.store.notes[schema_note] = serialize_schema(schema, form_);
    }
    schema_ = std::move(schema);
  });
  return intake;
}

CurrentJob Buffer::current_job() const {
  const std::lock_guard lock(state_mutex_);
  return job_;
}

/// Throws IoError if the samples were checked for `job`, but the current job may accept different samples.
void Buffer::require_same_acceptance(const CurrentJob& job) const {
  if (!job_.has_left && (job.has_left || job.acceptance != job_.acceptance))
    throw IoError("buffer", "has a new job, which may accept different samples",
                  "Send the same request again");
}

/// Returns the stored sample to which the fields belong; null if the sample was trained or dropped. Throws
/// UnknownGroupError if the sample has not arrived.
const stream::WaitingSample* Buffer::find_stored_sample(const ReceivedFields& fields) const {
  const stream::WaitingSample* const sample = ledger_->find_sample(fields.key);
  if (sample != nullptr || ledger_->is_known(fields.key)) return sample;
  throw UnknownGroupError(fields.error_location(),
                          "names sample " + std::to_string(fields.key.index) + " of group " +
                              stream::to_text(fields.key.uid) + ", which has not been received",
                          "Add fields to a sample after it was acknowledged");
}

/// Checks the values in the same way as values that arrive with samples, and returns the common schema of the
/// request's fields.
JsonlSchema Buffer::check_fields_and_join_schemas(std::span<const ReceivedFields> received,
                                                  const CurrentJob& job) const {
  constexpr std::int64_t max_tokens_at_once = std::int64_t{1} << 20;
  JsonlSchema schema;
  std::vector<const ReceivedFields*> fields;
  std::vector<SampleLengths> lengths;
  std::int64_t tokens = 0;
  const auto check = [&] {
    if (fields.empty()) return;
    const ReceivedSamples samples = make_samples_with_fields(fields, lengths);
    if (!job.has_left) {
      const std::vector<std::optional<ErrorReport>> faults = find_faults(samples, job.acceptance);
      for (std::size_t i = 0; i < faults.size(); ++i)
        if (faults[i]) throw InputError(fields[i]->error_location(), faults[i]->message, faults[i]->hint);
    }
    schema = join_late_field_schemas(schema, select_fields(samples.schema(), settings_.late_fields), true);
    fields.clear();
    lengths.clear();
    tokens = 0;
  };
  for (const ReceivedFields& of_sample : received) {
    const auto stored = [&]() -> std::optional<SampleLengths> {
      const std::lock_guard lock(state_mutex_);
      require_loaded();
      const stream::WaitingSample* const sample = find_stored_sample(of_sample);
      if (sample == nullptr) return std::nullopt;
      return SampleLengths{sample->prompt, sample->response};
    }();
    if (!stored) continue;
    const auto has_key = [&](const auto& value) { return fields.back()->values.contains(value.first); };
    const bool has_same_fields = !fields.empty() && fields.back()->values.size() == of_sample.values.size() &&
                                 std::ranges::all_of(of_sample.values, has_key);
    if (!has_same_fields || tokens > max_tokens_at_once) check();
    tokens += stored->prompt + stored->response;
    fields.push_back(&of_sample);
    lengths.push_back(*stored);
  }
  check();
  return schema;
}

/// Returns the fields that are new to their samples, and counts the samples by outcome in `intake`. Throws
/// FieldsError if a sample already has a different value of a field.
std::vector<Buffer::Addition> Buffer::select_new_fields(const std::vector<ReceivedFields>& received,
                                                        FieldIntake& intake) const {
  std::vector<Addition> fresh;
  std::map<std::pair<std::int64_t, std::string>, std::uint32_t> in_request;
  for (const ReceivedFields& fields : received) {
    const stream::WaitingSample* const sample = find_stored_sample(fields);
    if (sample == nullptr) {
      ++intake.gone;
      continue;
    }
    Addition addition{{fields.key, 0, {}}, {}};
    for (const auto& [name, value] : fields.values) {
      const std::uint32_t content = hash_value(value);
      std::optional<std::uint32_t> before = ledger_->added_content_hash(sample->arrival, name);
      if (!before) {
        const auto [known, is_new] = in_request.emplace(std::pair(sample->arrival, name), content);
        if (is_new) {
          addition.event.content.emplace(name, content);
          append_field(addition.body, name, value);
        }
        before = known->second;
      }
      if (*before == content) continue;
      const std::optional<std::int64_t> step = ledger_->step_of(fields.key.uid);
      throw FieldsError(fields.error_location(),
                        "has a different value of field '" + name + "' of sample " +
                            std::to_string(fields.key.index) + " of group " +
                            stream::to_text(fields.key.uid) + " than was sent before" +
                            (step ? "; the sample is in step " + std::to_string(*step) : ""),
                        "Add each value only once. To repeat the request, send the same value");
    }
    const bool has_new = !addition.body.empty();
    ++(has_new ? intake.added : intake.duplicates);
    if (!has_new) continue;
    addition.event.bytes = store_->cost_of(std::ssize(addition.body));
    fresh.push_back(std::move(addition));
  }
  return fresh;
}

FieldIntake Buffer::add_fields(const std::vector<ReceivedFields>& received) {
  const CurrentJob job = current_job();
  const JsonlSchema schema = check_fields_and_join_schemas(received, job);
  std::int64_t bytes = 0;
  for (const ReceivedFields& fields : received)
    for (const auto& [name, value] : fields.values) bytes += store_->cost_of(std::ssize(name + value));
  std::vector<Addition> fresh;  // lives until submit() returns, since the transaction refers to the bodies
  FieldIntake intake;
  queue_.submit(bytes, [&](Change& change) {
    require_same_acceptance(job);
    JsonlSchema joined = late_schema_;
    try {
      joined = join_late_field_schemas(late_schema_, schema, !ledger_->status().formed_step);
    } catch (const InputError& error) {
      throw FieldsError(error.report());
    }
    intake = {};
    fresh = select_new_fields(received, intake);
    std::int64_t cost = 0;
    for (const Addition& addition : fresh) {
      const std::int64_t number = std::numeric_limits<std::int64_t>::max();
      cost +=
          addition.event.bytes + store_->cost_of_event(std::ssize(serialize_event({number, addition.event})));
    }
    if (cost > 0) require_room(change, cost);
    change.cost += cost;
    for (const Addition& addition : fresh)
      change.store.bodies.push_back({change.apply(addition.event), addition.body});
    intake.version = ledger_->version();
    if (fresh.empty()) return;
    last_sample_ = Clock::now();
    full_reason_.clear();
    if (const std::string text = serialize_schema(joined); text != serialize_schema(late_schema_))
      change.store.notes[late_schema_note] = text;
    late_schema_ = std::move(joined);
  });
  return intake;
}

/// Returns, for each sample, the reason why the job does not accept it, or nullopt if it does.
std::vector<std::optional<ErrorReport>> Buffer::find_faults(const ReceivedSamples& received,
                                                            const Acceptance& acceptance) const {
  std::vector<std::optional<ErrorReport>> faults;
  const bool looks_at_values = acceptance.depends_on_values(received.schema());
  for (const ReceivedSample& sample : received.samples()) {
    const stream::SampleAccepted& lengths = sample.accepted;
    faults.push_back(find_length_fault(lengths.prompt, lengths.response, acceptance));
    if (!looks_at_values || faults.back()) continue;
    const std::int64_t number = sample.number;
    faults.back() = find_value_fault(
        parse_samples(frame_body(sample.body), std::span(&number, 1), received.schema(), formats_),
        acceptance);
  }
  return faults;
}

RaggedBatch Buffer::read_waiting_samples(std::span<const stream::WaitingSample> samples,
                                         const JsonlSchema& schema) const {
  std::string bodies;
  std::vector<std::int64_t> arrivals;
  for (const stream::WaitingSample& sample : samples) {
    read_body(sample.arrival, [&](std::string_view body, const BodyFrame& frame) {
      bodies.append(frame.before).append(body).append(frame.after);
    });
    arrivals.push_back(sample.arrival);
  }
  return parse_samples(bodies, arrivals, schema, formats_);
}

/// Returns the index of a sample that the job does not accept, with the reason, or nullopt if the job accepts
/// the group. Samples that arrived after the job began were checked on arrival. If the group has no earlier
/// samples and `is_formed` is set, its tree was checked when the job formed the step.
std::optional<std::pair<std::int64_t, ErrorReport>> Buffer::find_group_fault(
    const stream::WaitingGroup& group, const CurrentJob& job, const JsonlSchema& schema,
    bool is_formed) const {
  bool is_checked = is_formed;
  for (const stream::WaitingSample& sample : group.samples) {
    if (sample.arrival > job.unchecked) continue;
    is_checked = false;
    std::optional<ErrorReport> fault = find_length_fault(sample.prompt, sample.response, job.acceptance);
    if (!fault && job.acceptance.depends_on_values(schema))
      fault = find_value_fault(read_waiting_samples({&sample, 1}, schema), job.acceptance);
    if (fault) return std::pair(sample.index, *fault);
  }
  if (is_checked || group.samples.size() < 2 || !job.acceptance.declares_trees(schema)) return std::nullopt;
  auto fault = find_tree_fault(read_waiting_samples(group.samples, schema));
  if (fault) fault->first = group.samples[static_cast<std::size_t>(fault->first)].index;
  return fault;
}

/// Throws InputError for the first sample that the current job does not accept. `is_formed` states whether
/// the step was already formed.
void Buffer::require_job_accepts(std::int64_t step, std::span<const stream::WaitingGroup> groups,
                                 bool is_formed) const {
  const auto [job, schema] = [&] {
    const std::lock_guard lock(state_mutex_);
    return std::pair(job_, schema_with_late_fields());
  }();
  if (job.has_left) return;
  for (const stream::WaitingGroup& group : groups) {
    const auto fault = find_group_fault(group, job, schema, is_formed);
    if (!fault) continue;
    const std::string index = std::to_string(fault->first);
    const std::string way_out =
        is_formed ? "Abort the group, which is in the step already: POST /v1/groups/UID/abort with "
                    "{\"in_step\": true}"
                  : "Abort the sample: POST /v1/groups/UID/abort with {\"index\": " + index + "}";
    throw InputError("step " + std::to_string(step),
                     "cannot be built: sample " + index + " of group " + stream::to_text(group.uid) + " " +
                         fault->second.message,
                     way_out + ", and resume the job. Or: " + fault->second.hint);
  }
}

/// Returns the groups of the step that are still ready, with their samples.
std::vector<stream::WaitingGroup> Buffer::waiting_groups_of(const stream::StepFormed& step) const {
  const std::lock_guard lock(state_mutex_);
  require_loaded();
  std::vector<stream::WaitingGroup> groups = ledger_->ready();
  std::erase_if(groups, [&](const stream::WaitingGroup& group) {
    return std::ranges::find(step.groups, group.uid, &stream::FormedGroup::uid) == step.groups.end();
  });
  return groups;
}

JsonlSchema Buffer::schema_with(const ReceivedSamples& received) const {
  for (const std::string& field : settings_.late_fields) {
    if (!received.schema().has_field(field) && !received.schema().ignored.contains(field)) continue;
    throw FieldsError("body",
                      "has the field '" + field + "', which must be added later, because it is a late field",
                      "Send it with POST /v1/fields after the sample has been acknowledged");
  }
  if (!schema_.empty && !received.schema().empty && received.form() != form_) {
    const auto words = [](SampleForm form) {
      return form == SampleForm::lines ? "JSON Lines" : "safetensors";
    };
    throw FieldsError(
        "body",
        std::string("is in ") + words(received.form()) + "; earlier samples were sent as " + words(form_),
        "Send all samples in the same format");
  }
  try {
    if (received.form() == SampleForm::tensors) return join_tensor_schemas(schema_, received.schema());
    return join_schemas(schema_, received.schema(), !ledger_->status().formed_step);
  } catch (const InputError& error) {
    throw FieldsError(error.report());
  }
}

GrantedTickets Buffer::grant_tickets(std::int64_t groups, const TicketRequest& request) {
  GrantedTickets granted;
  queue_.submit(0, [&](Change& change) {
    granted = {std::max<std::int64_t>(groups, 0), ledger_->version()};
    if (!settings_.limits_tickets()) return;
    expire_tickets(change);
    if (const auto* before = ledger_->find_earlier_grant(request.holder, request.identity)) {
      granted.groups = before->granted_groups;
      return;
    }
    // Before the first job, the number of groups per step is unknown.
    const std::int64_t most = groups_per_step_ ? ledger_->count_grantable_groups(*groups_per_step_) : 0;
    granted.groups = std::min(granted.groups, most);
    if (granted.groups == 0) return;
    const std::int64_t now = current_time_ms();
    const auto time = static_cast<std::int64_t>(1000 * settings_.ticket_deadline);
    change.apply(stream::TicketsGranted{granted.groups, now, now + time, request.holder, request.identity});
  });
  return granted;
}

void Buffer::close_group(const Uid& uid) {
  queue_.submit(0, [&](Change& change) {
    if (!ledger_->knows_group(uid)) {
      throw UnknownGroupError("group " + stream::to_text(uid),
                              "is unknown: none of its samples has been received",
                              "Close a group after its samples were acknowledged; if there are none, abort "
                              "it");
    }
    change.apply(stream::GroupClosed{uid, false});
    change.apply_due_drops();
  });
}

std::optional<std::int64_t> Buffer::abort_group(const Uid& uid, std::optional<std::int64_t> index,
                                                const std::string& reason) {
  require_storable_reason(reason);
  if (const std::string why = stream::uid_rejection_reason(uid); !why.empty()) throw InputError("body", why);
  if (index && (*index < 0 || *index >= settings_.group_size)) {
    throw InputError("body",
                     "has index " + std::to_string(*index) + ", but a group has " +
                         format_plain_count(settings_.group_size, "sample") + ", numbered from 0",
                     "Send the index of a sample, or leave index out to abort the whole group");
  }
  std::optional<std::int64_t> step;
  queue_.submit(0, [&](Change& change) {
    step = ledger_->step_of(uid);
    stream::GroupAborted aborted{uid, index, reason};
    if (!ledger_->knows_group(uid)) {
      const std::int64_t cost = store_->cost_of_event(std::ssize(serialize_event({0, aborted})));
      require_room(change, cost);
      change.cost += cost;
    }
    change.apply(std::move(aborted));
    change.apply_due_drops();
  });
  return step;
}

void Buffer::abort_formed_group(const Uid& uid, const std::string& reason) {
  require_storable_reason(reason);
  queue_.submit(0, [&](Change& change) {
    if (is_job_alive()) {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(lapse_).count();
      throw BusyError("job " + std::to_string(job_.number),
                      "may still be running and may already have the step",
                      "End the job, then abort the group. If it has crashed, try again after " +
                          std::to_string(seconds) + " s");
    }
    if (!ledger_->step_of(uid)) {
      throw InputError("group " + stream::to_text(uid),
                       "is not in a step that was formed and not yet trained",
                       "If it still waits, abort it without in_step");
    }
    change.apply(stream::GroupAborted{uid, std::nullopt, reason, true});
  });
}

void Buffer::end_stream() {
  queue_.submit(0, [&](Change& change) {
    if (ledger_->totals().ended) return;
    change.apply(stream::StreamEnded{});
    change.apply_due_drops();
  });
}

Uid Buffer::find_uid_by_name(const std::string& name) const {
  const Uid text = name;
  const std::optional<Uid> integer = integer_uid_of(name);
  if (!integer) return text;
  const std::lock_guard lock(state_mutex_);
  require_loaded();
  const bool is_integer = ledger_->knows_group(*integer);
  const bool is_text = ledger_->knows_group(text);
  if (is_integer != is_text) return is_integer ? *integer : text;
  const std::string where = "group " + name;
  const std::string hint = "Send {\"uid\": " + name + "} or {\"uid\": \"" + name +
                           "\"} to POST /v1/groups/close or /v1/groups/abort";
  if (is_text)
    throw InputError(where, "is the name of two groups: one is an integer, the other a string", hint);
  throw UnknownGroupError(where, "is unknown, and could be an integer or a string", hint);
}

bool Buffer::is_job_alive() const {
  return !job_.has_left && Clock::now() < last_call_ + lapse_;
}

BusyError Buffer::make_busy_error() const {
  return {"job " + std::to_string(job_.number),
          "already trains from the buffer, which serves one job at a time",
          "End that job, or set stream.take_over: true, which ends it with an error"};
}

void Buffer::check_pass_and_record_use(const std::string& pass) {
  if (pass.empty()) return;
  require_pass(pass, job_, rules_);
  last_call_ = Clock::now();
}

std::string Buffer::begin_job(std::int64_t groups_per_step, const JobStart& start) {
  if (std::unique_lock lock(state_mutex_); !start.takes_over) {
    const Clock::time_point last_chance = Clock::now() + lapse_;
    while (is_job_alive() && !is_stopping_) {
      if (Clock::now() >= last_chance) throw make_busy_error();
      changed_.wait_until(lock, std::min(last_chance, last_call_ + lapse_));
    }
  }
  std::string pass;
  queue_.submit(0, [&](Change& change) {
    if (!start.takes_over && is_job_alive())
      throw make_busy_error();  // another job began while this call waited
    groups_per_step_ = groups_per_step;
    job_ = job_.make_next_job(start.acceptance, ledger_->totals().last_event);
    last_call_ = Clock::now();
    failed_step_.reset();
    change.store.notes[groups_note] = std::to_string(groups_per_step);
    change.store.notes[job_note] = format_job(job_);
    pass = pass_of(job_, rules_);
  });
  return pass;
}

void Buffer::renew_job(const std::string& pass) {
  const std::lock_guard lock(state_mutex_);
  require_loaded();
  check_pass_and_record_use(pass);
}

void Buffer::leave_job(const std::string& pass) {
  queue_.submit(0, [&](Change& change) {
    check_pass_and_record_use(pass);
    job_.has_left = true;
    change.store.notes[job_note] = format_job(job_);
  });
}

void Buffer::set_job_timeout(std::chrono::milliseconds lapse) {
  const std::lock_guard lock(state_mutex_);
  lapse_ = lapse;
}

void Buffer::publish(std::int64_t version, const std::string& pass) {
  queue_.submit(0, [&](Change& change) {
    check_pass_and_record_use(pass);
    if (version == ledger_->version() && ledger_->totals().has_version) return;
    change.apply(stream::VersionPublished{version});
    change.apply_due_drops();
    expire_tickets(change);
  });
}

void Buffer::mark_trained(std::int64_t step, const std::string& pass) {
  queue_.submit(0, [&](Change& change) {
    check_pass_and_record_use(pass);
    if (const auto latest = ledger_->totals().trained_step; latest && *latest >= step) return;
    const std::optional<std::int64_t> formed = ledger_->status().formed_step;
    if (!formed || *formed < step) {
      const std::string number = std::to_string(step);
      throw InputError(
          "step " + number, "was reported as trained, but the buffer has not formed it",
          "Report only formed steps. If the buffer was restored from an older copy, skip the steps "
          "that it lost: POST /v1/skip {\"step\": " +
              number + "}");
    }
    full_reason_.clear();
    change.apply(stream::StepTrained{step});
  });
}

void Buffer::skip_through(std::int64_t step) {
  queue_.submit(0, [&](Change& change) {
    if (const auto latest = ledger_->totals().trained_step; latest && *latest >= step) return;
    full_reason_.clear();
    change.apply(stream::StepTrained{step, true});
  });
}

void Buffer::form_step(const stream::StepFormed& step, const std::string& pass) {
  renew_job(pass);
  const std::vector<stream::WaitingGroup> waiting = waiting_groups_of(step);
  try {
    require_job_accepts(step.step, waiting, false);
  } catch (const InputError& error) {
    if (waiting_groups_of(step) == waiting) throw;
    throw FieldsError(error.report());  // a group has changed since waiting_groups_of() was called
  }
  queue_.submit(0, [&](Change& change) {
    check_pass_and_record_use(pass);
    for (const stream::FormedStep& formed : ledger_->untrained_steps(step.step)) {
      if (formed.step != step.step) continue;
      std::vector<stream::FormedGroup> groups;
      for (const stream::WaitingGroup& group : formed.groups)
        groups.push_back({group.uid, std::ssize(group.samples)});
      if (groups == step.groups && formed.masked == step.masked && formed.version == step.version) return;
      throw FieldsError("step " + std::to_string(step.step),
                        "was already formed with different groups, masks or policy version",
                        "Ask which groups it has: GET /v1/job/steps?from=" + std::to_string(step.step));
    }
    try {
      change.apply(step);
    } catch (const InputError& error) {
      throw FieldsError(error.report());  // a group has changed since the step was chosen
    }
    change.apply_due_drops();
  });
}

WaitingGroups Buffer::wait_for_groups(std::int64_t enough, std::int64_t most,
                                      std::chrono::milliseconds time) {
  std::unique_lock lock(state_mutex_);
  const Clock::time_point begun = Clock::now();
  changed_.wait_for(lock, time, [&] {
    const stream::Status status = ledger_->status();
    return is_stopping_ || (!must_load_ && (status.ready_groups >= enough || status.is_exhausted()));
  });
  waited_ += Clock::now() - begun;
  require_loaded();
  WaitingGroups waiting{ledger_->ready(),  ledger_->versions_of_expected_groups(),
                        ledger_->status(), seconds_since_last_sample(),
                        full_reason_,      is_stopping_};
  if (std::ssize(waiting.groups) > most) waiting.groups.resize(static_cast<std::size_t>(most));
  return waiting;
}

void Buffer::abandon_step(std::int64_t step, const std::string& why, const std::string& pass) {
  {
    const std::lock_guard lock(state_mutex_);
    check_pass_and_record_use(pass);
    failed_step_ = FailedStep{step, why};
  }
  changed_.notify_all();
}

/// Waits until all changes so far are durable.
void Buffer::wait_until_durable() {
  {
    const std::lock_guard lock(state_mutex_);
    if (is_durable_) return;
  }
  queue_.submit(0, [](Change&) {});
}

PendingStep Buffer::wait_for_step(std::int64_t step, std::chrono::milliseconds time) {
  PendingStep come;
  const auto look = [&] {
    if (must_load_) return is_stopping_;
    for (stream::FormedStep& formed : ledger_->untrained_steps(step)) {
      if (formed.step == step) come.step = std::move(formed);
    }
    come.stream = ledger_->status();
    come.is_over = !come.step && come.stream.is_exhausted() && come.stream.ready_groups == 0;
    if (failed_step_ && failed_step_->step <= step) come.failure = failed_step_->why;
    return come.step || come.is_over || !come.failure.empty() || is_stopping_;
  };
  {
    std::unique_lock lock(state_mutex_);
    changed_.wait_for(lock, time, look);
    require_loaded();
    come.seconds_since_last_sample = seconds_since_last_sample();
  }
  if (!come.step) return come;
  wait_until_durable();
  require_job_accepts(step, come.step->groups, true);
  return come;
}

void Buffer::drop_filtered(std::vector<std::int64_t> arrivals, const std::string& pass) {
  queue_.submit(0, [&](Change& change) {
    check_pass_and_record_use(pass);
    std::ranges::sort(arrivals);
    std::vector<std::int64_t> waiting;
    for (const stream::WaitingGroup& group : ledger_->ready()) {
      for (const stream::WaitingSample& sample : group.samples) {
        if (std::ranges::binary_search(arrivals, sample.arrival)) waiting.push_back(sample.arrival);
      }
    }
    if (waiting.empty()) return;
    change.apply(stream::SamplesDropped{std::move(waiting), stream::DropReason::filtered});
    change.apply_due_drops();
  });
}

std::vector<stream::FormedStep> Buffer::untrained_steps(std::int64_t from_step) {
  std::vector<stream::FormedStep> steps;
  {
    const std::lock_guard lock(state_mutex_);
    require_loaded();
    steps = ledger_->untrained_steps(from_step);
  }
  if (!steps.empty()) wait_until_durable();
  return steps;
}

void Buffer::read_body(std::int64_t arrival,
                       const std::function<void(std::string_view, const BodyFrame&)>& take) const {
  std::vector<std::int64_t> added;
  if (!settings_.late_fields.empty()) {
    const std::lock_guard lock(state_mutex_);
    require_loaded();
    for (const stream::AddedFields& fields : ledger_->fields_added_to(arrival))
      added.push_back(fields.number);
  }
  std::string fields;
  for (const std::int64_t number : added)
    store_->read_body(number, [&](std::string_view more) { fields.append(",").append(more); });
  store_->read_body(arrival, [&](std::string_view body) {
    if (fields.empty() || detect_form(body) == SampleForm::tensors)
      return take(body, make_body_frame(body, fields));
    const std::string line = add_fields_to_line(body, fields);
    take(line, make_body_frame(line));
  });
}

JsonlSchema Buffer::schema() const {
  const std::lock_guard lock(state_mutex_);
  require_loaded();
  return schema_with_late_fields();
}

BufferStatus Buffer::status() const {
  const std::lock_guard lock(state_mutex_);
  return {must_load_ ? stored_ : ledger_->status(),
          store_->name(),
          store_->data_loss_risk(),
          store_->capacity(),
          store_->bytes_in_use(),
          seconds_since_last_sample(),
          groups_per_step_,
          identity_,
          std::chrono::duration<double>(waited_).count(),
          job_.number,
          is_job_alive(),
          settings_.group_size};
}

std::optional<double> Buffer::seconds_since_last_sample() const {
  if (!last_sample_) return std::nullopt;
  return std::chrono::duration<double>(Clock::now() - *last_sample_).count();
}

void Buffer::record_opened_group(const Uid& uid) {
  if (settings_.deadline && is_opened_.insert(stream::group_key(uid)).second)
    opened_.push_back({uid, Clock::now()});
}

std::optional<Buffer::Clock::time_point> Buffer::next_commit_time() const {
  const std::lock_guard lock(state_mutex_);
  return must_load_ ? Clock::now() + Queue::reload_interval : next_deadline();
}

std::optional<Buffer::Clock::time_point> Buffer::next_deadline() const {
  std::optional<Clock::time_point> next = next_group_deadline();
  if (const auto tickets = ledger_->next_ticket_deadline()) {
    const std::int64_t left = std::clamp<std::int64_t>(*tickets - current_time_ms(), 0, 3'600'000);
    const Clock::time_point then = Clock::now() + std::chrono::milliseconds(left);
    next = std::min(next.value_or(then), then);
  }
  return next;
}

std::optional<Buffer::Clock::time_point> Buffer::next_group_deadline() const {
  if (opened_.empty()) return std::nullopt;
  return opened_.front().opened +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*settings_.deadline));
}

/// Expires tickets whose deadline has passed or whose groups could no longer be trained in time.
void Buffer::expire_tickets(Change& change) {
  const std::int64_t now = current_time_ms();
  const std::int64_t oldest = ledger_->version() - settings_.max_staleness.value_or(ledger_->version());
  const auto is_over = [&](const stream::OpenTickets& open) {
    return open.deadline <= now || open.version < oldest;
  };
  if (std::ranges::none_of(ledger_->totals().tickets, is_over)) return;
  change.apply(stream::TicketsExpired{now, oldest});
}

// Records passed deadlines as events, so that replays do not depend on a clock.
void Buffer::apply_deadlines(Change& change) {
  expire_tickets(change);
  bool has_closed = false;
  for (auto due = next_group_deadline(); due && *due <= Clock::now(); due = next_group_deadline()) {
    change.apply(stream::GroupClosed{opened_.front().uid, true});
    is_opened_.erase(stream::group_key(opened_.front().uid));
    opened_.pop_front();
    has_closed = true;
  }
  if (has_closed) change.apply_due_drops();
}

}  // namespace evenkeel
