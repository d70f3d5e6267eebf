#include "buffer/values/value_index.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::int64_t size_in_bytes(const StoredSample& sample) {
  std::int64_t bytes = 0;
  for (const StoredValue& value : sample.values) bytes += value.bytes;
  return bytes;
}

/// Appends a non-negative number as a varint (unsigned LEB128).
void append_number(std::string& out, std::int64_t number) {
  auto rest = static_cast<std::uint64_t>(number);
  for (; rest >= 0x80; rest >>= 7) out += static_cast<char>(rest | 0x80);
  out += static_cast<char>(rest);
}

[[noreturn]] void reject_event() {
  throw InputError("event of values", "cannot be read", "Restore the store from a backup");
}

std::int64_t read_number(std::string_view& in) {
  std::uint64_t number = 0;
  for (int shift = 0; !in.empty() && shift < 63; shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return static_cast<std::int64_t>(number);
  }
  reject_event();
}

std::string_view read_text(std::string_view& in) {
  const auto size = static_cast<std::size_t>(read_number(in));
  if (size > in.size()) reject_event();
  const std::string_view text = in.substr(0, size);
  in.remove_prefix(size);
  return text;
}

TensorForm read_form(std::string_view& in) {
  const std::int64_t type = read_number(in);
  const std::int64_t axes = read_number(in);
  if (!is_value_type(type) || axes > static_cast<std::int64_t>(TensorShape::max_axes)) reject_event();
  TensorForm form{static_cast<ValueType>(type), {}};
  for (std::int64_t axis = 0; axis < axes; ++axis) form.shape.push_back(read_number(in));
  return form;
}

}  // namespace

const StoredSample* ValueIndex::find(std::int64_t index) const {
  const auto found = samples_.find(index);
  return found == samples_.end() ? nullptr : &found->second;
}

void ValueIndex::set(std::int64_t index, StoredSample sample) {
  values_ += std::ssize(sample.values);
  bytes_ += size_in_bytes(sample);
  StoredSample& known = samples_[index];
  values_ -= std::ssize(known.values);
  bytes_ -= size_in_bytes(known);
  known = std::move(sample);
  if (known.values.empty()) samples_.erase(index);
}

std::vector<std::int64_t> ValueIndex::indexes() const {
  std::vector<std::int64_t> indexes;
  for (const auto& [index, sample] : samples_) indexes.push_back(index);
  std::ranges::sort(indexes);
  return indexes;
}

std::uint32_t ValueIndex::assign_field_number(std::string_view name) {
  const auto [known, is_new] = numbers_.emplace(name, static_cast<std::uint32_t>(fields_.size()));
  if (is_new) fields_.emplace_back(name);
  return known->second;
}

std::optional<std::uint32_t> ValueIndex::find_field(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::string ValueIndex::encode_event(std::int64_t index, std::int64_t record,
                                     const StoredSample& sample) const {
  std::string event;
  append_number(event, index);
  append_number(event, record);
  for (const StoredValue& value : sample.values) {
    if (value.record != record) continue;
    const std::string& name = name_of_field(value.field);
    append_number(event, std::ssize(name));
    event += name;
    append_number(event, value.form.type);
    append_number(event, std::ssize(value.form.shape));
    for (const std::int64_t dimension : value.form.shape) append_number(event, dimension);
    append_number(event, value.offset);
  }
  return event;
}

RecordEvent parse_record_event(std::string_view text) {
  RecordEvent event{read_number(text), read_number(text), {}};
  while (!text.empty()) {
    RecordEvent::Value value{std::string(read_text(text)), read_form(text), read_number(text)};
    const std::optional<std::int64_t> bytes = bytes_of(value.form);
    if (!bytes) reject_event();
    value.bytes = *bytes;
    event.values.push_back(std::move(value));
  }
  return event;
}

void ValueIndex::add(const RecordEvent& event, std::int64_t number) {
  const StoredSample* const known = find(event.index);
  StoredSample sample = known == nullptr ? StoredSample{} : *known;
  sample.records.push_back({event.record, number});
  for (const RecordEvent::Value& value : event.values) {
    const std::uint32_t field = assign_field_number(value.field);
    if (std::ranges::find(sample.values, field, &StoredValue::field) != sample.values.end()) reject_event();
    sample.values.push_back({field, value.form, event.record, value.offset, value.bytes});
  }
  set(event.index, std::move(sample));
}

}  // namespace evenkeel
