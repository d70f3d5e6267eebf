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

/// Which tokens of its sample each row of a field belongs to: [rows, 2] of int64, the first token and the one
/// after the last, counted from the sample's start. A view of one sample's.
class TokensOfRows {
 public:
  /// Precondition: two numbers a row.
  explicit TokensOfRows(std::span<const std::int64_t> bounds) : bounds_(bounds) {
    EVENKEEL_PRECONDITION(cheap, bounds.size() % 2 == 0, bounds.size());
  }

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(bounds_.size() / 2); }
  /// Precondition: 0 <= row < size().
  [[nodiscard]] RowRange operator[](std::int64_t row) const noexcept {
    const auto at = static_cast<std::size_t>(2 * row);
    return {bounds_[at], bounds_[at + 1]};
  }

  /// Throws InputError about the `field` that has them unless every row has one token at least of the
  /// sample, and neither first nor last tokens fall from row to row. O(rows).
  void require_valid(const SampleShape& sample, const std::string& field) const;

  /// The rows that have any token of `runs`, which are in order and apart: each row once, in order,
  /// neighbours joined. O(runs * log rows). Precondition: require_valid() accepts them.
  ///
  /// Example: of rows of the tokens [0, 4), [4, 8), [8, 12), the runs [0, 2) and [6, 8) need [0, 2): the
  /// first two.
  [[nodiscard]] std::vector<RowRange> with_tokens_of(std::span<const RowRange> runs) const;

 private:
  std::span<const std::int64_t> bounds_;
};

/// Whether a field has the form of one that says which tokens each row of another belongs to.
[[nodiscard]] bool has_form_of_ranges(const FieldSpec& spec);

/// The token ranges of one sample, in a column of such a field, by the sample's number there. Local.
[[nodiscard]] TokensOfRows tokens_of_rows(const Column& ranges, std::int64_t sample);

/// Throws InputError unless field `by` gives valid ranges (TokensOfRows::require_valid) of each of the rows
/// that this sample has in `field`, which it cuts. O(rows).
void require_tokens_of_rows(const TokensOfRows& tokens, std::int64_t rows, const SampleShape& sample,
                            const std::string& field, const std::string& by);

/// How many rows of each sample every member of its group is handed, in fields whose rows one field of token
/// ranges cuts for context parallelism. Replicated.
class RowCuts {
 public:
  /// Of groups of these sizes, by entry of the LengthTable. No rows so far.
  RowCuts(std::string by, std::span<const int> group_sizes);

  /// The field of token ranges.
  [[nodiscard]] const std::string& by() const noexcept { return by_; }
  /// By member of the sample's group.
  [[nodiscard]] std::span<std::int64_t> rows_of(EntryId entry) noexcept {
    return std::span(rows_).subspan(first_[entry.index()], first_[entry.index() + 1] - first_[entry.index()]);
  }
  [[nodiscard]] std::span<const std::int64_t> rows_of(EntryId entry) const noexcept {
    return std::span(rows_).subspan(first_[entry.index()], first_[entry.index() + 1] - first_[entry.index()]);
  }

 private:
  std::string by_;
  std::vector<std::size_t> first_;  // by entry, and the end
  std::vector<std::int64_t> rows_;
};

/// Those that this field makes. Precondition: they are there. O(cuts).
[[nodiscard]] const RowCuts& cuts_by(std::span<const RowCuts> cuts, std::string_view field);

}  // namespace evenkeel
