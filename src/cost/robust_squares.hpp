#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace evenkeel {

/// Number of terms that add up to a time: a constant, tokens, squares, and communication over two kinds of
/// links.
inline constexpr std::size_t num_terms = 5;
using Terms = std::array<double, num_terms>;

/// One equation of the fit: seconds ~ offset + coefficients * terms.
struct Row {
  Terms terms{};  ///< at most about 1, so that sums cannot overflow
  double seconds = 0;
  double offset = 0;
  double weight = 1;
};

/// Returns a row's seconds minus the seconds predicted by the coefficients.
[[nodiscard]] double residual_of(const Terms& coefficients, const Row& row) noexcept;

/// Returns the median; if there are two middle values, the larger one. Precondition: `values` is not empty.
[[nodiscard]] double median(std::vector<double> values);

/// Solves the least squares problem for every choice of terms (there are few) and returns the best solution
/// without a negative coefficient. The terms to choose from are the constant (if the rows can distinguish
/// it), tokens, squares, and each additional term whose bit is set in `extra`. Returns nullopt if these terms
/// are linearly dependent, or if every solution has a negative coefficient.
[[nodiscard]] std::optional<Terms> solve_not_negative(std::span<const Row> rows, unsigned extra);

/// Sets Huber's weights (1964): 1 close to the fit, decreasing with the distance beyond 1.345 standard
/// deviations. If the fit is exact for half of the rows, up to `rounding`, returns false and keeps the
/// weights, since there is no noise to compare distances with.
[[nodiscard]] bool reweight(std::vector<Row>& rows, const Terms& coefficients, double rounding);

}  // namespace evenkeel
