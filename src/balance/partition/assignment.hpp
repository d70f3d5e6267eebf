#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evenkeel {

/// A one-to-one matching of rows and columns.
struct Assignment {
  std::vector<std::int64_t> column_of_row;
  std::int64_t value = 0;  ///< sum of the matrix entries of all matched (row, column) pairs
  std::int64_t upper_bound =
      0;  ///< upper bound on the value of any matching; the matching is optimal if this equals `value`

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// Returns the matching of maximum value in an n x n matrix, which is given in row-major order. Uses shortest
/// augmenting paths (Jonker and Volgenant, 1987; Kuhn's Hungarian method). O(n^3) time, O(n) memory in
/// addition to the matrix. Deterministic, local. Throws InputError if `values` does not have n * n entries,
/// an entry is negative, or n times the largest entry reaches 2^62.
[[nodiscard]] Assignment best_assignment(std::span<const std::int64_t> values, std::int64_t n);

/// Returns a good matching in O(n^2 log n), for large n: matches the largest values first, then swaps the
/// columns of pairs of rows as long as that increases the value, in at most 8 rounds. The upper bound is the
/// smaller of the sum of row maxima and the sum of column maxima. Throws InputError in the same cases as
/// best_assignment().
[[nodiscard]] Assignment good_assignment(std::span<const std::int64_t> values, std::int64_t n);

}  // namespace evenkeel
