#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/plan/length_table.hpp"

namespace evenkeel {

/// The distinct values that some samples have in a field of which equal values lie once, back to back: what
/// one column has for all of them. Pure: equal on all ranks for equal input.
///
/// Example: entries 0 to 3 have 2, 2, 5 and 2 rows, and entry 3 has the value of entry 0. The pool of entries
/// 3, 2 and 0 has the values of entries 0 and 2, in rows 0 to 2 and 2 to 7; entry 3 has rows 0 to 2.
class ValuePool {
 public:
  ValuePool() = default;
  /// Of entries in any order. `counts` says which values are equal, and must outlive this. O(n log n).
  ValuePool(const RowCounts& counts, std::span<const EntryId> entries);

  /// The entries that bring the values, one each, ascending.
  [[nodiscard]] std::span<const EntryId> values() const noexcept { return values_; }
  /// Whose the rows are, where each value is a sample's.
  [[nodiscard]] const SampleRows& rows() const noexcept { return rows_; }
  /// Where an entry's value stands. Precondition: the entry is one of the pool's. O(log n).
  [[nodiscard]] RowRange rows_of(EntryId entry) const noexcept;

 private:
  const RowCounts* counts_ = nullptr;
  std::vector<EntryId> values_;
  SampleRows rows_;
};

}  // namespace evenkeel
