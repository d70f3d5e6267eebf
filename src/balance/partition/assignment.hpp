#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evenkeel {

/// Rows matched to columns one to one.
struct Assignment {
  std::vector<std::int64_t> column_of_row;
  std::int64_t value = 0;        ///< the sum of the values matched
  std::int64_t upper_bound = 0;  ///< no matching is worth more; equal to `value` when that is the optimum

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// The matching worth most, of an n x n matrix of values, row after row. Shortest augmenting paths (Jonker
/// and Volgenant, 1987; Kuhn's Hungarian method), O(n^3), O(n) memory beside the matrix. Deterministic,
/// local. Throws InputError when `values` has not n * n entries or one is negative, or n times the largest
/// reaches 2^62.
[[nodiscard]] Assignment best_assignment(std::span<const std::int64_t> values, std::int64_t n);

/// A good matching where n^3 is too much: the largest values first, then pairs of rows swap columns while
/// that gains, at most 8 rounds. The bound is the smaller of the sums of the rows' and of the columns'
/// largest values. O(n^2 log n). Throws as best_assignment does.
[[nodiscard]] Assignment good_assignment(std::span<const std::int64_t> values, std::int64_t n);

}  // namespace evenkeel
