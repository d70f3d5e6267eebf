#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "buffer/store/store.hpp"
#include "buffer/values/value_index.hpp"

namespace evenkeel {

/// Changes that one transaction makes to values. The index does not change before apply(), so other threads
/// may read it until then. Each event of the store describes exactly the values of its record that still
/// exist: if some of these values are replaced or removed, the event is replaced; if none of them remains,
/// the record is erased.
class ValueChange {
 public:
  /// New records and events are numbered from `next` on.
  ValueChange(const ValueIndex& index, std::int64_t next) : index_(index), next_(next) {}

  /// Adds the values of a record. They replace earlier values with the same index and field. `fields` has the
  /// number of each value's field. Precondition: there is at least one value.
  void put(const NewRecord& record, std::span<const std::uint32_t> fields);
  /// Removes the values of a sample for which `is_chosen` returns true. Returns the number of removed values.
  std::int64_t remove(std::int64_t index, const std::function<bool(const StoredValue&)>& is_chosen);

  [[nodiscard]] bool is_empty() const noexcept { return stored_.bodies.empty() && stored_.erased.empty(); }
  [[nodiscard]] std::int64_t next_number() const noexcept { return next_; }
  /// Returns the change for the store. Call this only once, after all changes.
  [[nodiscard]] const StoreChange& finish();
  /// Makes the same change to the index. Call this after the commit.
  void apply(ValueIndex& index);

 private:
  [[nodiscard]] StoredSample& find_or_copy_sample(std::int64_t index);
  void add_event(std::int64_t index, StoredRecord& record, const StoredSample& sample);

  const ValueIndex& index_;
  std::int64_t next_;
  StoreChange stored_;
  std::map<std::int64_t, StoredSample> touched_;  // changed samples after the change, by index
};

}  // namespace evenkeel
