#include "balance/partition/assignment.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "balance/checks.hpp"
#include "base/text_layout.hpp"
#include "cost/sum_limit.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// A square matrix, stored row by row.
class ValueMatrix {
 public:
  ValueMatrix(std::span<const std::int64_t> values, std::int64_t n)
      : values_(values), size_(static_cast<std::size_t>(std::max<std::int64_t>(n, 0))) {
    if (n < 0 || values.size() != size_ * size_) {
      throw InputError("values", format_plain_count(std::ssize(values), "value") + " cannot form a " +
                                     std::to_string(n) + " x " + std::to_string(n) + " matrix");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] < 0 || values[i] >= sum_limit / n) {
        throw InputError("values[" + std::to_string(i) + "]",
                         "is " + std::to_string(values[i]) + "; it must be at least 0 and less than 2^62 / " +
                             std::to_string(n));
      }
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::int64_t at(std::size_t row, std::size_t column) const {
    return values_[row * size_ + column];
  }
  [[nodiscard]] std::int64_t largest() const { return values_.empty() ? 0 : std::ranges::max(values_); }

  [[nodiscard]] std::int64_t value_of(std::span<const std::int64_t> column_of_row) const {
    std::int64_t value = 0;
    for (std::size_t row = 0; row < size_; ++row)
      value += at(row, static_cast<std::size_t>(column_of_row[row]));
    return value;
  }

  /// Returns an upper bound on the value of any matching: the smaller of the sum of row maxima and the sum of
  /// column maxima.
  [[nodiscard]] std::int64_t matching_upper_bound() const {
    std::vector<std::int64_t> of_row(size_, 0);
    std::vector<std::int64_t> of_column(size_, 0);
    for (std::size_t row = 0; row < size_; ++row) {
      for (std::size_t column = 0; column < size_; ++column) {
        of_row[row] = std::max(of_row[row], at(row, column));
        of_column[column] = std::max(of_column[column], at(row, column));
      }
    }
    return std::min(std::accumulate(of_row.begin(), of_row.end(), std::int64_t{0}),
                    std::accumulate(of_column.begin(), of_column.end(), std::int64_t{0}));
  }

 private:
  std::span<const std::int64_t> values_;
  std::size_t size_;
};

/// Matches rows to columns one row at a time, each along a shortest augmenting path over costs that are
/// reduced by potentials. The cost of a matrix entry is the largest value in the matrix minus the entry's
/// value. Columns are numbered from 1; column 0 is the start of a path.
class AugmentingPaths {
 public:
  explicit AugmentingPaths(const ValueMatrix& values)
      : values_(values),
        largest_(values.largest()),
        row_potential_(values.size()),
        column_potential_(values.size() + 1, 0),
        row_of_column_(values.size() + 1, unmatched) {}

  std::vector<std::int64_t> run() {
    for (std::size_t row = 0; row < values_.size(); ++row) match(row);
    std::vector<std::int64_t> column_of_row(values_.size());
    for (std::size_t column = 1; column < row_of_column_.size(); ++column)
      column_of_row[row_of_column_[column]] = static_cast<std::int64_t>(column) - 1;
    return column_of_row;
  }

 private:
  static constexpr std::size_t unmatched = std::numeric_limits<std::size_t>::max();

  void match(std::size_t row) {
    distance_.assign(row_of_column_.size(), std::numeric_limits<std::int64_t>::max());
    previous_.assign(row_of_column_.size(), 0);
    is_done_.assign(row_of_column_.size(), false);
    row_of_column_[0] = row;
    std::size_t column = 0;
    while (row_of_column_[column] != unmatched) column = settle_column_and_find_nearest(column);
    while (column != 0) {
      const std::size_t before = previous_[column];
      row_of_column_[column] = row_of_column_[before];
      column = before;
    }
  }

  /// Settles column `from`, relaxes the edges of its row, and returns the nearest column that is not settled.
  std::size_t settle_column_and_find_nearest(std::size_t from) {
    is_done_[from] = true;
    const std::size_t row = row_of_column_[from];
    std::size_t nearest = 0;
    std::int64_t step = std::numeric_limits<std::int64_t>::max();
    for (std::size_t column = 1; column < distance_.size(); ++column) {
      if (is_done_[column]) continue;
      const std::int64_t reduced =
          largest_ - values_.at(row, column - 1) - row_potential_[row] - column_potential_[column];
      if (reduced < distance_[column]) {
        distance_[column] = reduced;
        previous_[column] = from;
      }
      if (distance_[column] < step) {
        step = distance_[column];
        nearest = column;
      }
    }
    update_potentials(step);
    return nearest;
  }

  void update_potentials(std::int64_t step) {
    for (std::size_t column = 0; column < distance_.size(); ++column) {
      if (is_done_[column]) {
        row_potential_[row_of_column_[column]] += step;
        column_potential_[column] -= step;
      } else if (distance_[column] != std::numeric_limits<std::int64_t>::max()) {
        distance_[column] -= step;
      }
    }
  }

  const ValueMatrix& values_;
  std::int64_t largest_;
  std::vector<std::int64_t> row_potential_;
  std::vector<std::int64_t> column_potential_;
  std::vector<std::size_t> row_of_column_;
  std::vector<std::int64_t> distance_;
  std::vector<std::size_t> previous_;  ///< by column: the preceding column on the shortest path to it
  std::vector<bool> is_done_;
};

/// Matches the largest values first; on a tie, the first row and column. Remaining rows get the remaining
/// columns in order.
std::vector<std::int64_t> match_greedily(const ValueMatrix& values) {
  std::vector<std::tuple<std::int64_t, std::size_t, std::size_t>> order;  // (-value, row, column)
  for (std::size_t row = 0; row < values.size(); ++row) {
    for (std::size_t column = 0; column < values.size(); ++column) {
      if (values.at(row, column) > 0) order.emplace_back(-values.at(row, column), row, column);
    }
  }
  std::ranges::sort(order);
  std::vector<std::int64_t> column_of_row(values.size(), -1);
  std::vector<bool> is_taken(values.size(), false);
  for (const auto& [value, row, column] : order) {
    if (column_of_row[row] >= 0 || is_taken[column]) continue;
    column_of_row[row] = static_cast<std::int64_t>(column);
    is_taken[column] = true;
  }
  std::size_t free = 0;
  for (std::int64_t& column : column_of_row) {
    if (column >= 0) continue;
    while (is_taken[free]) ++free;
    column = static_cast<std::int64_t>(free++);
  }
  return column_of_row;
}

/// Swaps the columns of each pair of rows if that increases the value. Returns whether any columns were
/// swapped.
bool swap_pairs(const ValueMatrix& values, std::vector<std::int64_t>& column_of_row) {
  bool has_changed = false;
  for (std::size_t row = 0; row < values.size(); ++row) {
    for (std::size_t other = row + 1; other < values.size(); ++other) {
      const auto mine = static_cast<std::size_t>(column_of_row[row]);
      const auto theirs = static_cast<std::size_t>(column_of_row[other]);
      if (values.at(row, theirs) + values.at(other, mine) <= values.at(row, mine) + values.at(other, theirs))
        continue;
      std::swap(column_of_row[row], column_of_row[other]);
      has_changed = true;
    }
  }
  return has_changed;
}

}  // namespace

Assignment best_assignment(std::span<const std::int64_t> values, std::int64_t n) {
  const ValueMatrix matrix(values, n);
  Assignment assignment;
  assignment.column_of_row = AugmentingPaths(matrix).run();
  assignment.value = assignment.upper_bound = matrix.value_of(assignment.column_of_row);
  return assignment;
}

Assignment good_assignment(std::span<const std::int64_t> values, std::int64_t n) {
  const ValueMatrix matrix(values, n);
  Assignment assignment;
  assignment.column_of_row = match_greedily(matrix);
  constexpr int max_rounds = 8;
  for (int round = 0; round < max_rounds && swap_pairs(matrix, assignment.column_of_row); ++round) {
  }
  assignment.value = matrix.value_of(assignment.column_of_row);
  assignment.upper_bound = matrix.matching_upper_bound();
  return assignment;
}

}  // namespace evenkeel
