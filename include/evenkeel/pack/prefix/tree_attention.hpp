#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {

/// What every row of a tree sees, as two numbers a row: query row q sees key row k if and only if
///
///     tin[k] <= tin[q] && tin[q] < tout[k]
///
/// and that is so exactly when k's token is q's own or stands in front of it in all of q's samples. Nothing
/// else is needed: tin numbers the rows depth-first, so that it also says the order inside a segment, and
/// tout is the number behind the last row that hangs below. Two comparisons make the mask of any attention
/// function that takes one.
///
/// Example: for segments `1 2 | 3 | 4 | 5 6 | 7` tin is 0 to 6 and tout is 7 7 6 4 6 6 7.
struct AncestorIntervals {
  std::vector<std::int64_t> tin;
  std::vector<std::int64_t> tout;

  friend bool operator==(const AncestorIntervals&, const AncestorIntervals&) = default;
};
/// Of the rows of a tree. O(rows).
[[nodiscard]] AncestorIntervals ancestor_intervals(const PrefixTree& tree);

/// Position ids of the rows of a tree: every token's position in its own samples. O(rows).
[[nodiscard]] std::vector<std::int64_t> position_ids(const PrefixTree& tree);

/// What sharing saves. Score entries are the query-key pairs of causal attention, counted exactly.
struct SharingSavings {
  std::int64_t tokens = 0;                  ///< with every shared token once
  std::int64_t repeated_tokens = 0;         ///< with every sample on its own
  std::int64_t score_entries = 0;           ///< with sharing
  std::int64_t repeated_score_entries = 0;  ///< with every sample on its own

  SharingSavings& operator+=(const SharingSavings& other) noexcept;
  friend bool operator==(const SharingSavings&, const SharingSavings&) = default;
};
/// O(segments + samples).
[[nodiscard]] SharingSavings sharing_savings(const PrefixTree& tree);

}  // namespace evenkeel
