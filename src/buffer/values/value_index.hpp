#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "buffer/values/tensor_form.hpp"

namespace evenkeel {

/// A value in a store: a part of a record's body.
struct StoredValue {
  std::uint32_t field = 0;  ///< number of the field (ValueIndex::find_field())
  TensorForm form;
  std::int64_t record = 0;  ///< number of the record whose body contains the value (StoredRecord::number)
  std::int64_t offset = 0;  ///< offset of the value in the record's body, in bytes
  std::int64_t bytes = 0;
};

/// A record of a store: a body with values of one sample, and an event that describes the values in the body
/// that have not been replaced or cleared.
struct StoredRecord {
  std::int64_t number = 0;  ///< number of the record's body in the store
  std::int64_t event = 0;   ///< number of the record's latest event in the store
};

struct StoredSample {
  std::vector<StoredValue> values;    ///< the sample's values, at most one per field
  std::vector<StoredRecord> records;  ///< records that hold at least one of these values
};

/// Content of a record's event: the values of the record that have not been replaced or cleared.
struct RecordEvent {
  struct Value {
    std::string field;
    TensorForm form;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  std::int64_t index = 0;
  std::int64_t record = 0;
  std::vector<Value> values;
};
/// A record to add: the values of one sample, and the bytes that contain them.
struct NewRecord {
  RecordEvent event;  ///< description of the values; RecordEvent::record is not used
  std::shared_ptr<const char[]> body;
  std::int64_t bytes = 0;  ///< size of the record's body in bytes
};
/// Parses the result of ValueIndex::encode_event(). Throws InputError if the text is malformed.
[[nodiscard]] RecordEvent parse_record_event(std::string_view text);

/// Index of the values in a store, and of their locations. Not thread-safe.
class ValueIndex {
 public:
  /// Returns the sample with this index; null if it has no values.
  [[nodiscard]] const StoredSample* find(std::int64_t index) const;
  /// Replaces the entry of a sample. Removes the entry if the sample has no values.
  void set(std::int64_t index, StoredSample sample);
  [[nodiscard]] std::vector<std::int64_t> indexes() const;

  /// Returns the number of a field's name. Assigns a number if the name is new.
  std::uint32_t assign_field_number(std::string_view name);
  [[nodiscard]] std::optional<std::uint32_t> find_field(std::string_view name) const;
  [[nodiscard]] const std::string& name_of_field(std::uint32_t field) const { return fields_[field]; }

  [[nodiscard]] std::int64_t num_samples() const noexcept { return std::ssize(samples_); }
  [[nodiscard]] std::int64_t num_values() const noexcept { return values_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

  /// Adds the values that an event describes. `number` is the event's number. Throws InputError if the sample
  /// already has a value of one of the fields.
  void add(const RecordEvent& event, std::int64_t number);
  /// Returns the text of the event that describes the values of one record.
  [[nodiscard]] std::string encode_event(std::int64_t index, std::int64_t record,
                                         const StoredSample& sample) const;

 private:
  std::unordered_map<std::int64_t, StoredSample> samples_;
  std::vector<std::string> fields_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::int64_t values_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace evenkeel
