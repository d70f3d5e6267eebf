#include "cost/robust_squares.hpp"

#include <algorithm>
#include <cmath>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

// Bit masks of terms, with one bit per term.
constexpr unsigned base_terms = 0b111;
constexpr unsigned without_constant = 0b110;

/// The normal equations of weighted least squares over all terms.
struct NormalEquations {
  std::array<Terms, num_terms> products{};
  Terms targets{};

  explicit NormalEquations(std::span<const Row> rows) {
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < num_terms; ++i) {
        targets[i] += row.weight * row.terms[i] * (row.seconds - row.offset);
        for (std::size_t j = 0; j < num_terms; ++j)
          products[i][j] += row.weight * row.terms[i] * row.terms[j];
      }
    }
  }

  /// Solves for the terms whose bits are set in `used`, by Gaussian elimination. Returns nullopt if these
  /// terms are linearly dependent.
  [[nodiscard]] std::optional<Terms> solve(unsigned used) const {
    std::array<Terms, num_terms> left = products;
    Terms right = targets;
    const auto is_used = [&](std::size_t i) { return (used >> i & 1U) != 0; };
    for (std::size_t pivot = 0; pivot < num_terms; ++pivot) {
      if (!is_used(pivot)) continue;
      // Minimum fraction of a term's sum of squares that the previous terms must leave unexplained: (1 %)^2.
      constexpr double independent = 1e-4;
      if (left[pivot][pivot] <= independent * products[pivot][pivot]) return std::nullopt;
      for (std::size_t row = 0; row < num_terms; ++row) {
        if (row == pivot || !is_used(row)) continue;
        const double factor = left[row][pivot] / left[pivot][pivot];
        for (std::size_t j = 0; j < num_terms; ++j) left[row][j] -= factor * left[pivot][j];
        right[row] -= factor * right[pivot];
      }
    }
    Terms solution{};
    for (std::size_t i = 0; i < num_terms; ++i) solution[i] = is_used(i) ? right[i] / left[i][i] : 0;
    return solution;
  }
};

/// Returns the weighted sum of squared residuals. If the sum exceeds `limit`, may return any number above
/// `limit`.
double sum_squared_residuals(double limit, const Terms& coefficients, std::span<const Row> rows) {
  double sum = 0;
  for (const Row& row : rows) {
    const double residual = residual_of(coefficients, row);
    sum += row.weight * residual * residual;
    if (sum > limit) break;
  }
  return sum;
}

/// Returns the largest set of terms that includes `extra` and that the rows can distinguish, as a bit mask; 0
/// if there is no such set.
unsigned distinguishable_terms(const NormalEquations& equations, unsigned extra) {
  for (const unsigned base : {base_terms, without_constant}) {
    if (equations.solve(base | extra)) return base | extra;
  }
  return 0;
}

}  // namespace

double residual_of(const Terms& coefficients, const Row& row) noexcept {
  double value = 0;
  for (std::size_t i = 0; i < num_terms; ++i) value += coefficients[i] * row.terms[i];
  return row.seconds - row.offset - value;
}

double median(std::vector<double> values) {
  EVENKEEL_PRECONDITION(cheap, !values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::optional<Terms> solve_nonnegative_least_squares(std::span<const Row> rows, unsigned extra) {
  const NormalEquations equations(rows);
  const unsigned usable = distinguishable_terms(equations, extra);
  std::optional<Terms> best;
  double least = 0;
  // Begin with all terms, whose fit is usually the best, so most other choices exceed the limit after a few
  // rows. On a tie, the later choice wins, so a set of terms never wins over its subset.
  for (unsigned used = usable; used > 0; --used) {
    if ((used & ~usable) != 0) continue;
    const std::optional<Terms> solution = equations.solve(used);
    if (!solution || std::ranges::any_of(*solution, [](double c) { return c < 0; })) continue;
    constexpr double no_limit = HUGE_VAL;
    const double squares = sum_squared_residuals(best ? least : no_limit, *solution, rows);
    if (best && squares > least) continue;
    best = solution;
    least = squares;
  }
  return best;
}

bool reweight(std::vector<Row>& rows, const Terms& coefficients, double rounding) {
  std::vector<double> distances;
  distances.reserve(rows.size());
  for (const Row& row : rows) distances.push_back(std::abs(residual_of(coefficients, row)));
  constexpr double deviation_of_median = 1.4826;
  const double limit = 1.345 * deviation_of_median * median(distances);
  if (limit <= rounding) return false;
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].weight = distances[i] <= limit ? 1 : limit / distances[i];
  return true;
}

}  // namespace evenkeel
