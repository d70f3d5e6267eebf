#include "evenkeel/batch/field.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

SampleRows SampleRows::of_counts(std::span<const std::int64_t> counts) {
  if (counts.empty()) return {};
  SampleRows made;
  made.offsets_.reserve(counts.size() + 1);
  made.offsets_.push_back(0);
  for (const std::int64_t count : counts) {
    const std::int64_t before = made.offsets_.back();
    if (count < 0 || count > std::numeric_limits<std::int64_t>::max() - before) {
      throw InputError(
          "sample " + std::to_string(made.size()) + " of the batch",
          "has " + std::to_string(count) + " rows, with " + std::to_string(before) + " of samples before it",
          "Numbers of rows must be from 0 to 2^63 - 1");
    }
    made.offsets_.push_back(before + count);
  }
  return made;
}

SampleRows SampleRows::of_offsets(std::vector<std::int64_t> offsets) {
  if (offsets.empty() || offsets.front() != 0 || !std::ranges::is_sorted(offsets)) {
    throw InputError("offsets", "are not prefix sums: they must start at 0 and never decrease",
                     "Give one more offset than there are samples");
  }
  if (offsets.size() == 1) return {};
  SampleRows made;
  made.offsets_ = std::move(offsets);
  return made;
}

SampleRows SampleRows::in_common(std::vector<RowRange> ranges, std::int64_t rows) {
  for (const RowRange& range : ranges) {
    if (0 <= range.begin && range.begin <= range.end && range.end <= rows) continue;
    throw InputError("rows in common",
                     "are " + std::to_string(rows) + ", and a sample has those from " +
                         std::to_string(range.begin) + " to " + std::to_string(range.end),
                     "Give each sample a range within them");
  }
  SampleRows made;
  made.ranges_ = std::move(ranges);
  made.rows_in_common_ = rows;
  return made;
}

}  // namespace evenkeel
