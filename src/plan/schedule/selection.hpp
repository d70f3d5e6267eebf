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

/// A sample of a source, or a piece of one.
struct Piece {
  std::int64_t position = 0;  ///< position of the sample in the source
  RowRange tokens;            ///< range of the sample's tokens

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The samples of a source that pass a filter, in the source's order, as entries 0 .. size() - 1. A pure
/// function of the lengths and the settings.
///
/// Example: with max_length 4 and `split`, samples of lengths 3, 9 and 0 give entries of 3, then 4, 4, 1 (the
/// second sample), then 0 tokens.
class Selection {
 public:
  /// Selects all samples, each as a whole.
  explicit Selection(std::int64_t samples);
  /// Selects by the filter. `tokens_in` returns the length of the sample at a position. Precondition:
  /// max_length >= 1. If the settings treat empty samples or samples longer than settings.max_length as
  /// errors, throws InputError naming the source and the first such sample. O(samples).
  Selection(std::int64_t samples, const std::function<std::int64_t(std::int64_t)>& tokens_in,
            const FilterSettings& settings, std::int64_t max_length, std::string_view source);

  [[nodiscard]] std::int64_t size() const noexcept { return counts_.taken; }
  [[nodiscard]] const FilterCounts& counts() const noexcept { return counts_; }
  /// Returns the position of an entry's sample. O(1). Precondition: 0 <= entry < size(); also for piece().
  [[nodiscard]] std::int64_t position_of(std::int64_t entry) const noexcept;
  /// Returns the piece of an entry whose whole sample has `tokens` tokens. O(1), or O(log samples) if samples
  /// were split.
  [[nodiscard]] Piece piece(std::int64_t entry, std::int64_t tokens) const noexcept;
  /// Returns whether every entry is a whole sample.
  [[nodiscard]] bool takes_whole_samples() const noexcept { return counts_.truncated + counts_.split == 0; }

  /// Returns a hash of the selected pieces: different selections from the same source have different hashes
  /// with high probability. Does not depend on the number of samples of the source.
  [[nodiscard]] std::uint64_t digest() const noexcept { return hash_.value(); }

 private:
  [[nodiscard]] std::int64_t count_entries(std::int64_t tokens, const FilterSettings& settings);
  void add_entries(std::int64_t position, std::int64_t entries);

  std::int64_t max_length_ = 0;  // maximum length of an entry in tokens; 0 if entries are whole samples
  FilterCounts counts_;
  /// Position of each entry's sample; empty if every entry e is sample e. The entries of one sample are
  /// consecutive.
  std::vector<std::int64_t> positions_;
  Fnv1a hash_;
};

}  // namespace evenkeel
