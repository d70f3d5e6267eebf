#include "buffer/values/value_change.hpp"

#include <algorithm>
#include <utility>

namespace evenkeel {

StoredSample& ValueChange::find_or_copy_sample(std::int64_t index) {
  if (const auto touched = touched_.find(index); touched != touched_.end()) return touched->second;
  const StoredSample* const known = index_.find(index);
  return touched_.emplace(index, known == nullptr ? StoredSample{} : *known).first->second;
}

void ValueChange::add_event(std::int64_t index, StoredRecord& record, const StoredSample& sample) {
  record.event = next_++;
  stored_.events.emplace_back(record.event, index_.encode_event(index, record.number, sample));
}

void ValueChange::put(const NewRecord& record, std::span<const std::uint32_t> fields) {
  const std::int64_t number = next_++;
  const std::int64_t index = record.event.index;
  remove(index,
         [&](const StoredValue& value) { return std::ranges::find(fields, value.field) != fields.end(); });
  stored_.bodies.push_back(
      {number, {record.body.get(), static_cast<std::size_t>(record.bytes)}, record.body});
  StoredSample& sample = find_or_copy_sample(index);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const RecordEvent::Value& value = record.event.values[i];
    sample.values.push_back({fields[i], value.form, number, value.offset, value.bytes});
  }
  sample.records.push_back({number, 0});
  add_event(index, sample.records.back(), sample);
}

std::int64_t ValueChange::remove(std::int64_t index,
                                 const std::function<bool(const StoredValue&)>& is_chosen) {
  if (!touched_.contains(index) && index_.find(index) == nullptr) return 0;
  StoredSample& sample = find_or_copy_sample(index);
  std::vector<std::int64_t> hit;  // numbers of the records from which values are removed
  std::erase_if(sample.values, [&](const StoredValue& value) {
    if (!is_chosen(value)) return false;
    hit.push_back(value.record);
    return true;
  });
  const auto removed = std::ssize(hit);
  std::ranges::sort(hit);
  const auto [first, last] = std::ranges::unique(hit);
  hit.erase(first, last);
  std::erase_if(sample.records, [&](StoredRecord& record) {
    if (!std::ranges::binary_search(hit, record.number)) return false;
    stored_.erased.push_back(record.event);
    if (std::ranges::find(sample.values, record.number, &StoredValue::record) != sample.values.end()) {
      add_event(index, record, sample);
      return false;
    }
    stored_.erased.push_back(record.number);
    return true;
  });
  return removed;
}

const StoreChange& ValueChange::finish() {
  stored_.drop_erased_additions();
  return stored_;
}

void ValueChange::apply(ValueIndex& index) {
  for (auto& [number, sample] : touched_) index.set(number, std::move(sample));
}

}  // namespace evenkeel
