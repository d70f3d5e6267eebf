#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/row_range.hpp"

namespace evenkeel {

/// Whose the rows of a counted field are. Taking no sample takes no memory.
///
/// As a rule each sample has its own, back to back in the order of the samples: n+1 prefix sums of the
/// numbers of rows that n samples have. They start at 0 and never fall. Example: samples of 2, 0 and 3 rows
/// have offsets {0, 2, 2, 5}.
///
/// Else rows lie in common: each sample has a range of them anywhere, several may have the same, and nobody
/// need have all. So it is in micro-batches with fields of which equal values lie once (FieldSharing::equal).
class SampleRows {
 public:
  /// Of no samples.
  SampleRows() = default;
  /// Of samples with these numbers of rows. Throws InputError for a negative number, and for 2^63 rows and
  /// more. O(n).
  [[nodiscard]] static SampleRows of_counts(std::span<const std::int64_t> counts);
  /// Of samples with these offsets. Throws InputError unless they start at 0 and never fall. O(n).
  [[nodiscard]] static SampleRows of_offsets(std::vector<std::int64_t> offsets);
  /// Of samples that have these ranges of `rows` rows in common. Throws InputError for a range that is not
  /// within them. O(n).
  [[nodiscard]] static SampleRows in_common(std::vector<RowRange> ranges, std::int64_t rows);

  /// n
  [[nodiscard]] std::int64_t size() const noexcept {
    if (are_in_common()) return static_cast<std::int64_t>(ranges_.size());
    return offsets_.empty() ? 0 : static_cast<std::int64_t>(offsets_.size()) - 1;
  }
  /// Rows of all samples; of those in common all that there are.
  [[nodiscard]] std::int64_t rows() const noexcept {
    if (are_in_common()) return *rows_in_common_;
    return offsets_.empty() ? 0 : offsets_.back();
  }
  /// The rows of one sample. Precondition: 0 <= sample < size().
  [[nodiscard]] RowRange operator[](std::int64_t sample) const noexcept {
    EVENKEEL_PRECONDITION(cheap, 0 <= sample && sample < size(), sample, size());
    const auto at = static_cast<std::size_t>(sample);
    return are_in_common() ? ranges_[at] : RowRange{offsets_[at], offsets_[at + 1]};
  }
  [[nodiscard]] bool are_in_common() const noexcept { return rows_in_common_.has_value(); }
  /// Precondition: not in common.
  [[nodiscard]] std::span<const std::int64_t> offsets() const noexcept {
    EVENKEEL_PRECONDITION(cheap, !are_in_common(), size());
    return offsets_.empty() ? std::span<const std::int64_t>(&none, 1) : offsets_;
  }
  /// Each sample's rows. Precondition: in common.
  [[nodiscard]] std::span<const RowRange> ranges() const noexcept {
    EVENKEEL_PRECONDITION(cheap, are_in_common(), size());
    return ranges_;
  }

  /// Rows in common are equal to none of their own.
  friend bool operator==(const SampleRows& a, const SampleRows& b) noexcept = default;

 private:
  static constexpr std::int64_t none = 0;

  std::vector<std::int64_t> offsets_;  // empty for no samples, and for rows in common
  std::vector<RowRange> ranges_;       // of rows in common
  std::optional<std::int64_t> rows_in_common_;
};

}  // namespace evenkeel
