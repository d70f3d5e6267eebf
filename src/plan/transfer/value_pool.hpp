#pragma once

#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/plan/length_table.hpp"

namespace evenkeel {

/// The distinct values that some samples have in a field that stores equal values once. The values are
/// concatenated: they are the contents of one column for all these samples. Pure: equal input gives an equal
/// pool on all ranks.
class ValuePool {
 public:
  ValuePool() = default;
  /// Makes the pool of the values of these entries, which may be in any order. `counts` determines which
  /// values are equal, and must outlive this object. O(n log n).
  ValuePool(const RowCounts& counts, std::span<const EntryId> entries);

  /// Returns, for each value, the entry whose owner supplies it; ascending.
  [[nodiscard]] std::span<const EntryId> values() const noexcept { return values_; }
  /// Returns the rows of each value, as if each value were a sample.
  [[nodiscard]] const SampleRows& rows() const noexcept { return rows_; }
  /// Returns the rows of an entry's value. Precondition: the pool was made from entries that include this
  /// one. O(log n).
  [[nodiscard]] RowRange rows_of(EntryId entry) const noexcept;

 private:
  const RowCounts* counts_ = nullptr;
  std::vector<EntryId> values_;
  SampleRows rows_;
};

}  // namespace evenkeel
