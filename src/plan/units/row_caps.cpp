#include "plan/units/row_caps.hpp"

#include <algorithm>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

std::vector<RowCap> row_caps_of(const LengthTable& table, const MicroBatchSettings& settings) {
  std::vector<RowCap> caps;
  for (const auto& [field, most] : settings.max_rows) {
    const std::span<const std::int64_t> rows = rows_of(table.row_counts(), field);
    if (std::ssize(rows) != table.size()) {
      throw InputError("field '" + field + "'",
                       "has a cap in micro_batch.max_rows, but the samples do not have it as a field of kind "
                       "rows, text or bytes",
                       "Provide it in that form, or remove its cap");
    }
    caps.push_back({field, rows, most});
  }
  return caps;
}

void require_within_row_caps(const LengthTable& table, const MicroBatchSettings& settings) {
  for (const RowCap& cap : row_caps_of(table, settings)) {
    const auto above = std::ranges::find_if(cap.rows, [&](std::int64_t rows) { return rows > cap.most; });
    if (above == cap.rows.end()) continue;
    const EntryId entry{above - cap.rows.begin()};
    throw LimitError(table[entry].shape.id,
                     "has " + format_plain_count(*above, "row") + " of field '" + std::string(cap.field) +
                         "', above its cap of " + format_plain_count(cap.most, "row") + " per micro-batch",
                     "Raise micro_batch.max_rows of the field to at least " + std::to_string(*above) +
                         ", or shorten or drop the sample");
  }
}

bool RowTotals::has_room_for(EntryId entry) const noexcept {
  for (std::size_t c = 0; c < rows_.size(); ++c)
    if (caps_[c].rows[entry.index()] > caps_[c].most - rows_[c]) return false;
  return true;
}

void RowTotals::add(EntryId entry) noexcept {
  for (std::size_t c = 0; c < rows_.size(); ++c) rows_[c] += caps_[c].rows[entry.index()];
}

}  // namespace evenkeel
