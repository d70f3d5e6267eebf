#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// How many rows each sample of a step has in one counted field. Replicated.
struct RowCounts {
  std::string field;
  std::vector<std::int64_t> rows;  ///< by entry of the LengthTable
  /// Where equal values lie once: by entry, the first of the same owner with an equal one, which may be
  /// itself.
  std::vector<EntryId> firsts{};

  friend bool operator==(const RowCounts&, const RowCounts&) = default;
};

/// Those of the field of that name, by entry; none where the field is not counted, or not there. O(fields).
[[nodiscard]] inline std::span<const std::int64_t> rows_of(std::span<const RowCounts> counts,
                                                           std::string_view field) noexcept {
  const auto found = std::ranges::find(counts, field, &RowCounts::field);
  return found == counts.end() ? std::span<const std::int64_t>() : found->rows;
}

}  // namespace evenkeel
