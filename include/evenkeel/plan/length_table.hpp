#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// The number of rows of each sample of a step in one counted field. Replicated.
struct RowCounts {
  std::string field;
  std::vector<std::int64_t> rows;  ///< by entry of the LengthTable
  /// By entry, the first entry of the same owner with an equal value, which may be the entry itself. Empty
  /// unless equal values are stored once.
  std::vector<EntryId> firsts{};

  friend bool operator==(const RowCounts&, const RowCounts&) = default;
};

/// The sum of a field's elements in each sample of a step. Replicated.
struct FieldSums {
  std::string field;
  std::vector<std::int64_t> sums;  ///< by entry of the LengthTable; 0 or more

  friend bool operator==(const FieldSums&, const FieldSums&) = default;
};

/// Returns the rows of the field with this name, by entry; empty if the field is not counted or does not
/// exist. O(fields).
[[nodiscard]] inline std::span<const std::int64_t> rows_of(std::span<const RowCounts> counts,
                                                           std::string_view field) noexcept {
  const auto found = std::ranges::find(counts, field, &RowCounts::field);
  return found == counts.end() ? std::span<const std::int64_t>() : found->rows;
}

/// One sample of a step as known to every rank: its lengths, and the rank that holds its tokens.
struct LengthEntry {
  SampleShape shape;
  WorldRank owner{0};
  std::int32_t owner_index = 0;  ///< position in the owner's batch; an int, since MPI counts samples with int
  /// Number of tokens with loss in the sample's loss mask; -1 if all response tokens carry loss.
  std::int64_t loss_tokens = -1;
  std::uint64_t prompt_hash = 0;  ///< hash of the prompt's tokens if prefixes are shared, otherwise 0

  friend bool operator==(const LengthEntry&, const LengthEntry&) = default;
};

/// All samples of a step, ordered by (sample id, owner, owner's position). If ids are distinct, the order
/// does not depend on which rank holds which samples, so plans depend on that only through
/// PlacementRule::locality. Replicated: every rank holds an equal table.
/// "Entry" below always means a position in the table, an EntryId.
class LengthTable {
 public:
  LengthTable() = default;
  explicit LengthTable(std::vector<LengthEntry> entries);
  /// Makes a table for planning without tokens: samples 0..n-1 with these lengths in tokens, in this order,
  /// each in its own group. All tokens are response tokens, unless `prompts` and `responses` specify each
  /// sample's numbers of prompt and response tokens. Throws InputError for a negative length, or lists of
  /// different sizes. O(n).
  ///
  /// Example: from_lengths({7, 2}) and from_lengths({3, 0}, {4, 2}) are two samples of 7 and 2 tokens.
  [[nodiscard]] static LengthTable from_lengths(std::span<const std::int64_t> lengths);
  [[nodiscard]] static LengthTable from_lengths(std::span<const std::int64_t> prompts,
                                                std::span<const std::int64_t> responses);

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(entries_.size()); }
  [[nodiscard]] const LengthEntry& operator[](EntryId entry) const noexcept {
    return entries_[entry.index()];
  }
  [[nodiscard]] std::span<const LengthEntry> entries() const noexcept { return entries_; }
  [[nodiscard]] std::int64_t num_tokens() const noexcept;
  /// Returns the length of every sample, in tokens, by entry.
  [[nodiscard]] std::vector<std::int64_t> sample_lengths() const;

  /// Returns the number of rows of samples in each of their counted fields.
  [[nodiscard]] std::span<const RowCounts> row_counts() const noexcept { return row_counts_; }
  /// Precondition: each list has one number per entry.
  void set_row_counts(std::vector<RowCounts> counts) noexcept;

  /// Returns the sums of each field named by a cost, if samples have it.
  [[nodiscard]] std::span<const FieldSums> field_sums() const noexcept { return field_sums_; }
  /// Precondition: each FieldSums has one sum per entry of the table.
  void set_field_sums(std::vector<FieldSums> sums) noexcept;

  friend bool operator==(const LengthTable&, const LengthTable&) = default;

 private:
  std::vector<LengthEntry> entries_;
  std::vector<RowCounts> row_counts_;
  std::vector<FieldSums> field_sums_;
};

}  // namespace evenkeel
