#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// A cap of MicroBatchSettings::max_rows, and how many rows of its field every sample has. A view of both.
struct RowCap {
  std::string_view field;
  std::span<const std::int64_t> rows;  ///< by entry
  std::int64_t most = 0;
};

/// The rows that every sample, or unit of samples, has in a field with a cap.
struct CappedRows {
  std::vector<std::int64_t> of_units;
  std::int64_t most = 0;

  friend bool operator==(const CappedRows&, const CappedRows&) = default;
};

/// All of them, by the fields' names. Throws InputError that names a field of which samples do not have rows.
/// O(fields).
[[nodiscard]] std::vector<RowCap> row_caps_of(const LengthTable& table, const MicroBatchSettings& settings);

/// Throws LimitError that names the first sample above a cap on its own, the field, its rows and the cap; and
/// as row_caps_of. On the replicated table, so that every rank throws the same.
void require_below_row_caps(const LengthTable& table, const MicroBatchSettings& settings);

/// How many rows samples have together: fields in the order of the caps.
class RowsTogether {
 public:
  explicit RowsTogether(std::span<const RowCap> caps) : caps_(caps), rows_(caps.size()) {}

  /// Whether another sample fits beside them.
  [[nodiscard]] bool have_room_for(EntryId entry) const noexcept;
  void add(EntryId entry) noexcept;

 private:
  std::span<const RowCap> caps_;
  std::vector<std::int64_t> rows_;
};

}  // namespace evenkeel
