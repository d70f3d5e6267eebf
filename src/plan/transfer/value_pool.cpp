#include "plan/transfer/value_pool.hpp"

#include <algorithm>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

ValuePool::ValuePool(const RowCounts& counts, std::span<const EntryId> entries) : counts_(&counts) {
  values_.reserve(entries.size());
  for (const EntryId entry : entries) {
    EVENKEEL_PRECONDITION(cheap, entry.index() < counts.firsts.size(), counts.field, entry.index());
    values_.push_back(counts.firsts[entry.index()]);
  }
  std::ranges::sort(values_);
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  std::vector<std::int64_t> rows;
  rows.reserve(values_.size());
  for (const EntryId value : values_) rows.push_back(counts.rows[value.index()]);
  rows_ = SampleRows::from_counts(rows);
}

RowRange ValuePool::rows_of(EntryId entry) const noexcept {
  const auto found = std::ranges::lower_bound(values_, counts_->firsts[entry.index()]);
  EVENKEEL_PRECONDITION(cheap, found != values_.end() && *found == counts_->firsts[entry.index()],
                        entry.index(), counts_->field);
  return rows_[found - values_.begin()];
}

}  // namespace evenkeel
