#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// One cap of MicroBatchSettings::max_rows, with the row counts of its field. A view of the settings and the
/// table.
struct RowCap {
  std::string_view field;
  std::span<const std::int64_t> rows;  ///< number of rows of each sample, by entry
  std::int64_t most = 0;
};

/// The number of rows of each pack unit in a field with a cap, and that cap.
struct CappedRows {
  std::vector<std::int64_t> of_units;
  std::int64_t most = 0;

  friend bool operator==(const CappedRows&, const CappedRows&) = default;
};

/// Returns all row caps, ordered by field name. Throws InputError naming a field that has no row counts.
/// O(fields).
[[nodiscard]] std::vector<RowCap> row_caps_of(const LengthTable& table, const MicroBatchSettings& settings);

/// Throws LimitError if a single sample exceeds a cap, naming the first such sample, the field, its rows and
/// the cap. Throws InputError if a capped field has no row counts. The table is replicated, so every rank
/// throws the same error.
void require_below_row_caps(const LengthTable& table, const MicroBatchSettings& settings);

/// The total rows of a set of samples in each capped field, in the order of the caps.
class RowTotals {
 public:
  explicit RowTotals(std::span<const RowCap> caps) : caps_(caps), rows_(caps.size()) {}

  /// Returns whether all caps still hold if the sample is added.
  [[nodiscard]] bool has_room_for(EntryId entry) const noexcept;
  void add(EntryId entry) noexcept;

 private:
  std::span<const RowCap> caps_;
  std::vector<std::int64_t> rows_;
};

}  // namespace evenkeel
