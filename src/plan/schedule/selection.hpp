#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// What is taken of a source: a sample, or a piece of one.
struct Piece {
  std::int64_t position = 0;  ///< of the sample in the source
  RowRange tokens;            ///< of the sample

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The samples of a source that a filter lets through, in its order, as entries 0 .. size() - 1. A pure
/// function of the lengths and the settings.
///
/// Example: lengths 3, 9, 0 with max_length 4 and `split` are the entries 3; 4, 4, 1 of the second; 0.
class Selection {
 public:
  /// All samples, whole.
  explicit Selection(std::int64_t samples);
  /// `tokens_in` gives the length of a sample by its position. Precondition: max_length >= 1. Throws
  /// InputError that names the source and the first sample that is to be an error: an empty one, or one that
  /// is longer than settings.max_length. O(samples).
  Selection(std::int64_t samples, const std::function<std::int64_t(std::int64_t)>& tokens_in,
            const FilterSettings& settings, std::int64_t max_length, std::string_view source);

  [[nodiscard]] std::int64_t size() const noexcept { return counts_.taken; }
  [[nodiscard]] const FilterCounts& counts() const noexcept { return counts_; }
  /// The sample that an entry is of. O(1). Precondition: 0 <= entry < size(), as below.
  [[nodiscard]] std::int64_t position_of(std::int64_t entry) const noexcept;
  /// `tokens` is the length of the whole sample. O(1); O(log samples) where some were split.
  [[nodiscard]] Piece piece(std::int64_t entry, std::int64_t tokens) const noexcept;
  /// Whether every entry is a whole sample.
  [[nodiscard]] bool takes_whole_samples() const noexcept { return counts_.truncated + counts_.split == 0; }

  /// A number that differs, but for chance, where other pieces are taken.
  [[nodiscard]] std::uint64_t digest() const noexcept { return hash_.value(); }

 private:
  [[nodiscard]] std::int64_t entries_of(std::int64_t tokens, const FilterSettings& settings);
  void take(std::int64_t position, std::int64_t entries);

  std::int64_t max_length_ = 0;  // 0: pieces are whole samples
  FilterCounts counts_;
  /// By entry; empty while entry e is of sample e. Those of one sample follow each other.
  std::vector<std::int64_t> positions_;
  Fnv1a hash_;
};

}  // namespace evenkeel
