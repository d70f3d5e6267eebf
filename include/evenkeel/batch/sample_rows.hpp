#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/row_range.hpp"

namespace evenkeel {

/// Whose the rows of a counted field are: n+1 prefix sums of the numbers of rows that n samples have, in the
/// order of the samples. They start at 0 and never fall. Taking no sample takes no memory.
///
/// Example: samples of 2, 0 and 3 rows have offsets {0, 2, 2, 5}.
class SampleRows {
 public:
  /// Of no samples.
  SampleRows() = default;
  /// Of samples with these numbers of rows. Throws InputError for a negative number, and for 2^63 rows and
  /// more. O(n).
  [[nodiscard]] static SampleRows of_counts(std::span<const std::int64_t> counts);
  /// Of samples with these offsets. Throws InputError unless they start at 0 and never fall. O(n).
  [[nodiscard]] static SampleRows of_offsets(std::vector<std::int64_t> offsets);

  /// n
  [[nodiscard]] std::int64_t size() const noexcept {
    return offsets_.empty() ? 0 : static_cast<std::int64_t>(offsets_.size()) - 1;
  }
  /// Rows of all samples.
  [[nodiscard]] std::int64_t rows() const noexcept { return offsets_.empty() ? 0 : offsets_.back(); }
  /// The rows of one sample. Precondition: 0 <= sample < size().
  [[nodiscard]] RowRange operator[](std::int64_t sample) const noexcept {
    EVENKEEL_PRECONDITION(cheap, 0 <= sample && sample < size(), sample, size());
    const auto at = static_cast<std::size_t>(sample);
    return {offsets_[at], offsets_[at + 1]};
  }
  [[nodiscard]] std::span<const std::int64_t> offsets() const noexcept {
    return offsets_.empty() ? std::span<const std::int64_t>(&none, 1) : offsets_;
  }

  friend bool operator==(const SampleRows& a, const SampleRows& b) noexcept;

 private:
  static constexpr std::int64_t none = 0;

  std::vector<std::int64_t> offsets_;  // empty for no samples
};

}  // namespace evenkeel
