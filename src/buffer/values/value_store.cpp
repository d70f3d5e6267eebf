#include "buffer/values/value_store.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text_layout.hpp"
#include "buffer/values/value_file.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_ranges = std::int64_t{1} << 22;  // maximum number of slice ranges in one answer

std::string describe_value(std::int64_t index, const std::string& field) {
  return "index " + std::to_string(index) + ", field '" + field + "'";
}

/// Calls take(run) for each contiguous run of `value` that `cut` selects, or for all of `value` if `cut` is
/// null. Stops and returns false as soon as `take` returns false.
template <typename Take>
bool visit_runs(std::string_view value, const ValueCut* cut, const Take& take) {
  if (cut == nullptr) return value.empty() || take(value);
  return cut->for_each_run([&](std::int64_t offset, std::int64_t bytes) {
    return take(value.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)));
  });
}

}  // namespace

MissingValuesError::MissingValuesError(const std::string& first, std::int64_t count)
    : InputError(first,
                 "does not exist" + (count > 1 ? ", nor do" + std::string(count == 2 ? "es " : " ") +
                                                     format_plain_count(count - 1, "other value")
                                               : ""),
                 "Store it first"),
      count_(count) {}

bool FoundValues::for_each_run(const std::function<bool(std::string_view)>& take) const {
  for (std::size_t field = 0; field < head_.fields.size(); ++field)
    if (!for_each_run_of(field, take)) return false;
  return true;
}

bool FoundValues::for_each_run_of(std::size_t field,
                                  const std::function<bool(std::string_view)>& take) const {
  const std::size_t values = head_.indexes.size();
  return std::ranges::all_of(std::span(pieces_).subspan(field * values, values),
                             [&](const Piece& piece) { return visit_runs(piece.bytes, piece.cut, take); });
}

/// Changes that the requests of one transaction make.
struct ValueStore::Change {
  ValueChange values;
  std::int64_t cost = 0;    // maximum bytes of capacity that new values use
  bool is_partial = false;  // whether a request that is being applied may already have changed values
};

/// Location of a requested value.
struct ValueStore::FoundPlace {
  StoredValue value;
  std::int64_t cut = -1;  // position in Found::cuts; -1 for the whole value
};

/// Locations of all values that a client requested, and the description of the answer's frame.
struct ValueStore::Found {
  FrameHead head;
  std::vector<FoundPlace> places;  // locations of the values, ordered by field, then by index
  std::vector<ValueCut> cuts;
  std::int64_t bytes = 0;
};

ValueStore::ValueStore(std::unique_ptr<Store> store)
    : store_(std::move(store)),
      queue_("store", *store_,
             {.commit = [this](const Queue::Requests& requests) { return commit(requests); },
              .deadline = [this] { return next_load_time(); }}) {
  check_or_record_content(*store_, StoreContent::values);
  load_index();
  queue_.start_thread();
}

/// Returns the time at which to read the store again; nullopt unless its content is unknown.
std::optional<ValueStore::Queue::Clock::time_point> ValueStore::next_load_time() const {
  const std::shared_lock lock(index_mutex_);
  if (!must_load_) return std::nullopt;
  return Queue::Clock::now() + Queue::reload_interval;
}

void ValueStore::stop() {
  queue_.stop();
}

std::int64_t ValueStore::max_frame_bytes() const noexcept {
  return std::min(max_bytes_of_frame, store_->capacity());
}

void ValueStore::load_index() {
  store_->refresh();
  ValueIndex index;
  std::int64_t next = next_number_;
  store_->read_events([&](std::int64_t number, std::string_view text) {
    const RecordEvent event = parse_record_event(text);
    index.add(event, number);
    next = std::max({next, number + 1, event.record + 1});
  });
  const std::unique_lock lock(index_mutex_);
  index_ = std::move(index);
  next_number_ = next;
  must_load_ = false;
}

void ValueStore::require_loaded() const {
  if (must_load_) throw IoError(store_->name(), "could not be written, and cannot be read yet", "Try again");
}

/// Applies the requests and commits them in one transaction. Returns whether the store has changed. If a
/// request fails before it changes values, only this request fails, and the other requests are committed;
/// otherwise, all requests fail.
bool ValueStore::commit(const Queue::Requests& requests) {
  const std::lock_guard no_other(commit_mutex_);
  std::exception_ptr error;
  try {
    if (must_load_) load_index();
    Change change{ValueChange(index_, next_number_)};
    for (Queue::Request* request : requests) {
      try {
        request->act(change);
      } catch (...) {
        if (change.is_partial) throw;
        request->error = std::current_exception();
      }
    }
    if (change.values.is_empty()) return false;
    store_->commit(change.values.finish());
    next_number_ = change.values.next_number();
    const std::unique_lock lock(index_mutex_);
    change.values.apply(index_);
    return true;
  } catch (const LimitError& full) {
    // The store did not change, so the index is current. The capacity need not be the cause; for example,
    // Redis may have reached its own memory limit.
    error = std::make_exception_ptr(FullError(
        "store", "is full: " + full.report().where + " " + full.report().message,
        "Clear values that are not needed, or give the store more room (--capacity, or maxmemory of "
        "Redis)"));
  } catch (...) {
    error = std::current_exception();
    const std::unique_lock lock(index_mutex_);
    must_load_ = true;  // the next call of commit() loads the index again
  }
  for (Queue::Request* request : requests) request->error = error;
  return false;
}

LimitError ValueStore::make_too_large_error(std::int64_t bytes) const {
  return {"values",
          "need " + std::to_string(bytes) + " bytes, which do not fit into the store's capacity of " +
              std::to_string(store_->capacity()) + " even when it has no other values",
          "Store fewer values at once, or give the store more room (--capacity)"};
}

FullError ValueStore::make_full_error() const {
  return {"store",
          "is full: " + std::to_string(store_->bytes_in_use()) + " bytes of " +
              std::to_string(store_->capacity()) + " are in use",
          "Clear values that are not needed, or give the store more room (--capacity)"};
}

/// Returns the maximum number of bytes of capacity that a record uses.
std::int64_t ValueStore::cost_of(const NewRecord& record) const {
  constexpr std::int64_t most_of_number = 10;  // maximum size in bytes of a number in an event
  std::int64_t event = 2 * most_of_number;
  for (const RecordEvent::Value& value : record.event.values)
    event += std::ssize(value.field) + most_of_number * (4 + std::ssize(value.form.shape));
  return store_->cost_of(record.bytes) + store_->cost_of_event(event);
}

/// Returns the field number of each of the record's values. Called only by the writer thread.
std::vector<std::uint32_t> ValueStore::assign_field_numbers(const NewRecord& record) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(record.event.values.size());
  for (const RecordEvent::Value& value : record.event.values) {
    std::optional<std::uint32_t> number = index_.find_field(value.field);
    if (!number) {
      const std::unique_lock lock(index_mutex_);
      number = index_.assign_field_number(value.field);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

/// Adds records. They replace all existing records if `replaces_all` is set, otherwise only the values with
/// the same index and field.
void ValueStore::add(const std::vector<NewRecord>& records, bool replaces_all) {
  std::int64_t cost = 0;
  std::int64_t bytes = 0;
  for (const NewRecord& record : records) {
    if (record.bytes > store_->max_body_bytes()) {
      throw LimitError("index " + std::to_string(record.event.index),
                       "has " + format_plain_count(record.bytes, "byte") +
                           " of values; a request to this store may have at most " +
                           std::to_string(store_->max_body_bytes()) + " of one index",
                       "Send its fields in several requests");
    }
    cost += cost_of(record);
    bytes += record.bytes;
  }
  if (cost > store_->capacity()) throw make_too_large_error(cost);
  queue_.submit(bytes, [&](Change& change) {
    if (!replaces_all && store_->bytes_in_use() + change.cost + cost > store_->capacity())
      throw make_full_error();
    change.is_partial = true;
    change.cost += cost;
    if (replaces_all) {
      for (const std::int64_t index : index_.indexes())
        change.values.remove(index, [](const StoredValue&) { return true; });
    }
    for (const NewRecord& record : records) change.values.put(record, assign_field_numbers(record));
    change.is_partial = false;
  });
}

void ValueStore::put(const ReceivedValues& received) {
  if (!received.head().fields.empty()) add(received.records(), false);
}

ValueStatus ValueStore::load(const std::filesystem::path& path) {
  add(read_value_file(path), true);
  return status();
}

ValueStatus ValueStore::save(const std::filesystem::path& path) {
  const std::lock_guard no_commits(commit_mutex_);
  {
    const std::shared_lock lock(index_mutex_);
    require_loaded();
  }
  write_value_file(path, index_, *store_);
  return status();
}

std::int64_t ValueStore::clear(const ValueSelection& selection) {
  std::int64_t cleared = 0;
  queue_.submit(0, [&](Change& change) {
    change.is_partial = true;
    std::vector<std::uint32_t> fields;
    for (const std::string& name : selection.fields.value_or(std::vector<std::string>()))
      if (const auto field = index_.find_field(name)) fields.push_back(*field);
    const auto is_chosen = [&](const StoredValue& value) {
      return !selection.fields || std::ranges::find(fields, value.field) != fields.end();
    };
    for (const std::int64_t index : selection.indexes ? *selection.indexes : index_.indexes())
      cleared += change.values.remove(index, is_chosen);
    change.is_partial = false;
  });
  return cleared;
}

/// Finds the locations of the requested values in a single state of the store.
ValueStore::Found ValueStore::find(const ValueQuery& query) const {
  const std::shared_lock lock(index_mutex_);
  require_loaded();
  Found found{{query.indexes, {}}, {}, {}};
  std::vector<const StoredSample*> samples;
  for (const std::int64_t index : query.indexes) samples.push_back(index_.find(index));
  std::int64_t missing = 0;
  std::int64_t ranges = 0;
  std::string first_missing;
  found.places.reserve(query.indexes.size() * query.fields.size());
  for (const ValueQuery::Field& field : query.fields) {
    found.head.fields.push_back({field.name, {}});
    std::vector<TensorForm>& forms = found.head.fields.back().forms;
    const std::optional<std::uint32_t> number = index_.find_field(field.name);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto value = [&]() -> const StoredValue* {
        if (samples[i] == nullptr || !number) return nullptr;
        const auto at = std::ranges::find(samples[i]->values, *number, &StoredValue::field);
        return at == samples[i]->values.end() ? nullptr : &*at;
      }();
      if (value == nullptr) {
        if (missing++ == 0) first_missing = describe_value(query.indexes[i], field.name);
        continue;
      }
      FoundPlace place{*value};
      if (!field.slices.empty()) {
        for (const AxisSlice& slice : field.slices) ranges += std::ssize(slice.ranges_for(i));
        if (ranges > max_ranges) {
          throw LimitError("body", "asks for more than " + std::to_string(max_ranges) + " ranges of values",
                           "Ask for fewer values in a request");
        }
        place.cut = std::ssize(found.cuts);
        found.cuts.emplace_back(value->form, field.slices, i, describe_value(query.indexes[i], field.name));
      }
      forms.push_back(place.cut < 0 ? value->form : found.cuts.back().form());
      found.bytes += place.cut < 0 ? value->bytes : found.cuts.back().bytes();
      found.places.push_back(std::move(place));
    }
  }
  if (missing > 0) throw MissingValuesError(first_missing, missing);
  if (found.bytes > max_frame_bytes()) {
    throw LimitError("body",
                     "asks for " + std::to_string(found.bytes) + " bytes; the maximum is " +
                         std::to_string(max_frame_bytes()),
                     "Ask for fewer values in a request");
  }
  return found;
}

/// Reads the values at the given locations. Reads each record only once.
FoundValues ValueStore::read(Found found) const {
  FoundValues values;
  values.head_ = std::move(found.head);
  values.cuts_ = std::move(found.cuts);
  values.bytes_ = found.bytes;
  values.pieces_.resize(found.places.size());
  std::vector<std::size_t> order(found.places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto record_of = [&](std::size_t at) { return found.places[at].value.record; };
  std::ranges::stable_sort(order, {}, record_of);
  for (auto begin = order.begin(), end = begin; begin != order.end(); begin = end) {
    const std::int64_t record = record_of(*begin);
    end = std::find_if(begin, order.end(), [&](std::size_t at) { return record_of(at) != record; });
    read_record(record, found.places, {begin, end}, values);
  }
  return values;
}

/// Reads the values of one record: shares the store's memory if possible, otherwise copies the parts that are
/// needed.
void ValueStore::read_record(std::int64_t record, const std::vector<FoundPlace>& places,
                             std::span<const std::size_t> of_record, FoundValues& values) const {
  const auto cut_of = [&](std::size_t at) {
    return places[at].cut < 0 ? nullptr : &values.cuts_[static_cast<std::size_t>(places[at].cut)];
  };
  const auto part_of = [&](std::string_view body, std::size_t at) {
    const StoredValue& value = places[at].value;
    if (value.offset + value.bytes > std::ssize(body))
      throw InputError(store_->name(), "has a record that is too short for its values",
                       "Restore the store from a backup");
    return body.substr(static_cast<std::size_t>(value.offset), static_cast<std::size_t>(value.bytes));
  };
  if (const std::optional<SharedBody> shared = store_->find_shared_body(record)) {
    for (const std::size_t at : of_record) values.pieces_[at] = {part_of(shared->bytes, at), cut_of(at)};
    values.keepers_.push_back(shared->keeper);
    return;
  }
  std::int64_t bytes = 0;
  for (const std::size_t at : of_record)
    bytes += cut_of(at) == nullptr ? places[at].value.bytes : cut_of(at)->bytes();
  auto copy = std::make_shared_for_overwrite<char[]>(static_cast<std::size_t>(bytes));
  store_->read_body(record, [&](std::string_view body) {
    char* out = copy.get();
    for (const std::size_t at : of_record) {
      const char* const start = out;
      visit_runs(part_of(body, at), cut_of(at), [&](std::string_view run) {
        out = std::ranges::copy(run, out).out;
        return true;
      });
      values.pieces_[at] = {{start, out}, nullptr};
    }
  });
  values.copied_ += bytes;
  values.keepers_.push_back(std::move(copy));
}

FoundValues ValueStore::get(const ValueQuery& query) const {
  Found found = find(query);
  try {
    return read(std::move(found));
  } catch (const InputError&) {
    // A record was erased after find(), or is damaged. Try again while commits wait, so that records cannot
    // be erased.
    const std::lock_guard no_commits(commit_mutex_);
    return read(find(query));
  }
}

ValueStatus ValueStore::status() const {
  const std::shared_lock lock(index_mutex_);
  return {store_->name(), store_->data_loss_risk(), index_.num_samples(), index_.num_values(),
          index_.bytes(), store_->bytes_in_use(),   store_->capacity()};
}

}  // namespace evenkeel
