#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace evenkeel {

/// What a time is a sum of: a constant, tokens, squares, and communication over two kinds of links.
inline constexpr std::size_t num_terms = 5;
using Terms = std::array<double, num_terms>;

/// One equation: seconds ~ offset + coefficients * terms.
struct Row {
  Terms terms{};  ///< near 1 at most, so that no sum overflows
  double seconds = 0;
  double offset = 0;
  double weight = 1;
};

/// The distance of a row from what the coefficients say.
[[nodiscard]] double residual_of(const Terms& coefficients, const Row& row) noexcept;

/// The upper one of two that are in the middle. Precondition: not empty.
[[nodiscard]] double median(std::vector<double> values);

/// Least squares over every choice of terms whose coefficients come out without a negative one: few enough to
/// try them all. The first three terms count, the constant only where the rows can tell it, and each further
/// one whose bit is set in `extra`. Nothing when these terms depend on each other.
[[nodiscard]] std::optional<Terms> solve_not_negative(std::span<const Row> rows, unsigned extra);

/// Huber's weights (1964): 1 near the fit, falling with the distance beyond 1.345 standard deviations. False
/// when the fit is exact for half of the rows but for `rounding`, which is no noise to go by.
[[nodiscard]] bool reweight(std::vector<Row>& rows, const Terms& coefficients, double rounding);

}  // namespace evenkeel
