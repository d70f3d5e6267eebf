#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace evenkeel {

/// Number of terms that add up to a predicted time: a constant, tokens, squares, and communication over two
/// kinds of links.
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

/// Solves the least squares problem for every subset of the usable terms and returns the best solution
/// without a negative coefficient. The usable terms are the constant (if the rows can distinguish it),
/// tokens, squares, and each additional term whose bit is set in `extra`. Returns nullopt if the terms other
/// than the constant are linearly dependent, or if every solution has a negative coefficient.
[[nodiscard]] std::optional<Terms> solve_not_negative(std::span<const Row> rows, unsigned extra);

/// Sets each row's weight by Huber's rule (1964): 1 for residuals up to 1.345 standard deviations, and
/// inversely proportional to larger residuals. Returns false and keeps the weights if half of the rows fit
/// exactly, up to `rounding`, since there is then no noise from which to estimate the standard deviation.
[[nodiscard]] bool reweight(std::vector<Row>& rows, const Terms& coefficients, double rounding);

}  // namespace evenkeel
