#include "balance/cost_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

constexpr std::size_t num_terms = 3;
using Terms = std::array<double, num_terms>;

struct Row {
  Terms terms{};  ///< 1, tokens and squares, each divided by its largest value
  double seconds = 0;
  double weight = 1;
};

double value_of(const Terms& coefficients, const Row& row) {
  double value = 0;
  for (std::size_t i = 0; i < num_terms; ++i) value += coefficients[i] * row.terms[i];
  return value;
}

/// Precondition: not empty.
double median(std::vector<double> values) {
  EVENKEEL_PRECONDITION(cheap, !values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

bool is_sound(const CostObservation& observation) {
  return observation.tokens >= 0 && std::isfinite(observation.squares) && observation.squares >= 0 &&
         std::isfinite(observation.seconds) && observation.seconds > 0;
}

/// Weighted sums of products: the normal equations of all terms.
struct NormalEquations {
  std::array<Terms, num_terms> products{};
  Terms targets{};

  explicit NormalEquations(std::span<const Row> rows) {
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < num_terms; ++i) {
        targets[i] += row.weight * row.terms[i] * row.seconds;
        for (std::size_t j = 0; j < num_terms; ++j)
          products[i][j] += row.weight * row.terms[i] * row.terms[j];
      }
    }
  }

  /// For the terms whose bit is set in `used`, by elimination; nothing when they depend on each other.
  [[nodiscard]] std::optional<Terms> solve(unsigned used) const {
    std::array<Terms, num_terms> left = products;
    Terms right = targets;
    const auto is_used = [&](std::size_t i) { return (used >> i & 1U) != 0; };
    for (std::size_t pivot = 0; pivot < num_terms; ++pivot) {
      if (!is_used(pivot)) continue;
      constexpr double independent = 1e-4;  // share of a term that the others do not explain: 1 % of its size
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

// One bit a term.
constexpr unsigned all_terms = (1U << num_terms) - 1;
constexpr unsigned without_overhead = all_terms - 1;

double weighted_squares(const Terms& coefficients, std::span<const Row> rows) {
  double sum = 0;
  for (const Row& row : rows) {
    const double residual = row.seconds - value_of(coefficients, row);
    sum += row.weight * residual * residual;
  }
  return sum;
}

/// The most terms that the rows can tell apart; 0 when tokens and squares depend on each other.
unsigned terms_told_apart(const NormalEquations& equations) {
  if (equations.solve(all_terms)) return all_terms;
  return equations.solve(without_overhead) ? without_overhead : 0;
}

/// Least squares over every choice of terms whose coefficients come out without a negative one: few enough to
/// try them all. Nothing when the terms depend on each other.
std::optional<Terms> solve_not_negative(std::span<const Row> rows) {
  const NormalEquations equations(rows);
  const unsigned usable = terms_told_apart(equations);
  std::optional<Terms> best;
  double least = 0;
  for (unsigned used = 1; used <= usable; ++used) {
    if ((used & ~usable) != 0) continue;
    const std::optional<Terms> solution = equations.solve(used);
    if (!solution || std::ranges::any_of(*solution, [](double c) { return c < 0; })) continue;
    const double squares = weighted_squares(*solution, rows);
    if (best && squares >= least) continue;
    best = solution;
    least = squares;
  }
  return best;
}

/// Huber's weights: 1 near the fit, falling with the distance beyond 1.345 standard deviations. False when
/// the fit is exact for half of the rows but for rounding, which is no noise to go by.
bool reweight(std::vector<Row>& rows, const Terms& coefficients) {
  std::vector<double> distances;
  std::vector<double> seconds;
  for (const Row& row : rows) {
    distances.push_back(std::abs(row.seconds - value_of(coefficients, row)));
    seconds.push_back(row.seconds);
  }
  constexpr double rounding = 1e-9;
  constexpr double deviation_of_median = 1.4826;
  const double limit = 1.345 * deviation_of_median * median(distances);
  if (limit <= rounding * median(std::move(seconds))) return false;
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].weight = distances[i] <= limit ? 1 : limit / distances[i];
  return true;
}

/// What the integers of a cost model stand for.
struct Unit {
  double seconds = 0;  ///< of one unit of cost
  CostModel model;
};

Unit unit_of(const TimeModel& times) {
  constexpr double longest = 1 << 30;  // tokens; below that, the squares are nothing beside the tokens
  if (times.linear > longest * times.quadratic) return {times.linear, {1, 0}};
  constexpr double fine = 1024;
  const double ratio = times.linear / times.quadratic;
  const std::int64_t quadratic = ratio < fine ? 16 : 1;
  const auto units = static_cast<double>(quadratic);
  return {times.quadratic / units, {std::llround(ratio * units), quadratic}};
}

// A coefficient with the seconds and terms that it was fitted to, not divided by their largest values.
double coefficient(double fitted, double largest_seconds, double largest_term) {
  return fitted / largest_term * largest_seconds;
}

// Whether integers can stand for it: no coefficient is beyond what a double holds, nor so small that its
// digits are gone.
bool is_usable(const TimeModel& times) {
  const auto is_ordinary = [](double c) { return c == 0 || (std::isnormal(c) && c > 0); };
  return is_ordinary(times.overhead) && is_ordinary(times.linear) && is_ordinary(times.quadratic) &&
         (times.linear > 0 || times.quadratic > 0) && std::isnormal(unit_of(times).seconds);
}

}  // namespace

std::optional<TimeModel> fit_time_model(std::span<const CostObservation> observations) {
  std::vector<Row> rows;
  Terms largest{};
  double largest_seconds = 0;
  for (const CostObservation& each : observations) {
    if (!is_sound(each)) continue;
    largest_seconds = std::max(largest_seconds, each.seconds);
    rows.push_back({{1, static_cast<double>(each.tokens), each.squares}, each.seconds});
    for (std::size_t i = 0; i < num_terms; ++i) largest[i] = std::max(largest[i], rows.back().terms[i]);
  }
  constexpr std::size_t fewest = 16;
  if (rows.size() < fewest || std::ranges::min(largest) <= 0) return std::nullopt;
  // Nothing is above 1 from here on, so that no sum overflows.
  for (Row& row : rows) {
    for (std::size_t i = 0; i < num_terms; ++i) row.terms[i] /= largest[i];
    row.seconds /= largest_seconds;
  }
  std::optional<Terms> fit = solve_not_negative(rows);
  constexpr int rounds = 30;
  for (int round = 0; fit && round < rounds && reweight(rows, *fit); ++round) fit = solve_not_negative(rows);
  if (!fit) return std::nullopt;
  const TimeModel times{coefficient((*fit)[0], largest_seconds, largest[0]),
                        coefficient((*fit)[1], largest_seconds, largest[1]),
                        coefficient((*fit)[2], largest_seconds, largest[2])};
  if (!is_usable(times)) return std::nullopt;
  return times;
}

CostModel cost_model_of(const TimeModel& times) {
  EVENKEEL_PRECONDITION(cheap, times.linear > 0 || times.quadratic > 0, times.linear, times.quadratic);
  return unit_of(times).model;
}

Cost overhead_cost_of(const TimeModel& times) {
  constexpr double most = 1e14;  // so that the sum over the micro-batches of a step stays within 64 bits
  return std::llround(std::min(times.overhead / unit_of(times).seconds, most));
}

std::vector<std::int64_t> estimate_speeds(std::span<const CostObservation> observations,
                                          const TimeModel& times, std::int64_t dp) {
  constexpr double nominal = 1000;
  std::vector<std::vector<double>> ratios(static_cast<std::size_t>(std::max<std::int64_t>(dp, 0)));
  for (const CostObservation& each : observations) {
    if (!is_sound(each) || each.dp_rank < 0 || each.dp_rank >= dp) continue;
    ratios[static_cast<std::size_t>(each.dp_rank)].push_back(times(each) / each.seconds);
  }
  constexpr std::size_t fewest = 4;
  std::vector<double> medians;
  for (const std::vector<double>& of_rank : ratios) {
    if (of_rank.size() >= fewest) medians.push_back(median(of_rank));
  }
  std::vector<std::int64_t> speeds(ratios.size(), static_cast<std::int64_t>(nominal));
  if (medians.empty()) return speeds;
  const double usual = median(medians);
  for (std::size_t rank = 0; rank < ratios.size(); ++rank) {
    if (ratios[rank].size() < fewest || !(usual > 0)) continue;
    const double speed = nominal * (median(ratios[rank]) / usual);
    // Not a number where both are too large to tell.
    if (std::isnan(speed) || std::abs(speed - nominal) <= 0.02 * nominal) continue;
    speeds[rank] = std::llround(std::clamp(speed, nominal / 10, nominal * 10));
  }
  return speeds;
}

}  // namespace evenkeel
