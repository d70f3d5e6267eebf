#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// A view of the token range of each row of a field, in one sample: int64 values of shape [rows, 2] with the
/// first token and the token after the last one, counted from the start of the sample.
class TokensOfRows {
 public:
  /// Precondition: two numbers per row.
  explicit TokensOfRows(std::span<const std::int64_t> bounds) : bounds_(bounds) {
    EVENKEEL_PRECONDITION(cheap, bounds.size() % 2 == 0, bounds.size());
  }

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(bounds_.size() / 2); }
  /// Precondition: 0 <= row < size().
  [[nodiscard]] RowRange operator[](std::int64_t row) const noexcept {
    const auto at = static_cast<std::size_t>(2 * row);
    return {bounds_[at], bounds_[at + 1]};
  }

  /// Throws InputError about `field`, which holds the ranges, unless each row has at least one token of the
  /// sample and both the first and the last tokens are non-decreasing. O(rows).
  void require_valid(const SampleShape& sample, const std::string& field) const;

  /// Returns the rows that overlap any of `runs`, which are ascending and disjoint: ascending ranges of rows,
  /// each row once, with adjacent ranges merged. O(runs * log rows). Precondition: require_valid() accepts
  /// the ranges.
  ///
  /// Example: if three rows have the tokens [0, 4), [4, 8) and [8, 12), the runs [0, 2) and [6, 8) give [0,
  /// 2), the first two rows.
  [[nodiscard]] std::vector<RowRange> rows_overlapping(std::span<const RowRange> runs) const;

 private:
  std::span<const std::int64_t> bounds_;
};

/// Returns whether a field has the form of token ranges: rows of two int64.
[[nodiscard]] bool has_form_of_ranges(const FieldSpec& spec);

/// Returns the token ranges of one sample from a column of token ranges. `sample` is its position in the
/// column. Local.
[[nodiscard]] TokensOfRows tokens_of_rows(const Column& ranges, std::int64_t sample);

/// Throws InputError unless `tokens`, the sample's values of field `by`, has a valid token range
/// (TokensOfRows::require_valid) for each of the sample's `rows` rows in `field`, which is cut by `by`.
/// O(rows).
void require_valid_tokens_of_rows(const TokensOfRows& tokens, std::int64_t rows, const SampleShape& sample,
                                  const std::string& field, const std::string& by);

/// Row counts for the fields that are cut for context parallelism by the same field of token ranges
/// (FieldSettings::cut_by): the number of a sample's rows that each member of its CP group gets. Replicated.
class RowCuts {
 public:
  /// Initializes all counts to zero. `group_sizes` has the size of each sample's group, by entry of the
  /// LengthTable.
  RowCuts(std::string by, std::span<const int> group_sizes);

  /// Returns the name of the field that contains the token ranges.
  [[nodiscard]] const std::string& cutting_field() const noexcept { return by_; }
  /// Returns the number of rows that each member of the sample's group gets.
  [[nodiscard]] std::span<std::int64_t> row_counts_of(EntryId entry) noexcept {
    return std::span(rows_).subspan(first_[entry.index()], first_[entry.index() + 1] - first_[entry.index()]);
  }
  [[nodiscard]] std::span<const std::int64_t> row_counts_of(EntryId entry) const noexcept {
    return std::span(rows_).subspan(first_[entry.index()], first_[entry.index() + 1] - first_[entry.index()]);
  }

 private:
  std::string by_;
  std::vector<std::size_t> first_;  // by entry: offset in rows_; then the size of rows_
  std::vector<std::int64_t> rows_;
};

/// Returns the cuts defined by this field. Precondition: `cuts` contains them. O(cuts).
[[nodiscard]] const RowCuts& find_cuts(std::span<const RowCuts> cuts, std::string_view field);

}  // namespace evenkeel
