#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "cost/cost_fit.hpp"
#include "cost/robust_squares.hpp"

namespace evenkeel {

/// Number of kinds of links: inside a node, and between nodes.
inline constexpr std::size_t num_links = 2;

/// One observation. All quantities but the seconds are per rank of the micro-batch's group. Each is divided
/// by its maximum over all observations; hops, by their maximum over the observations of the same link.
struct ScaledTime {
  double tokens = 0;
  double squares = 0;
  double hops = 0;  ///< tokens on the rank times the number of other ranks in its group
  std::size_t link = 0;
  double seconds = 0;
};

/// Fits, by robust least squares without negative coefficients,
///
///     seconds ~ overhead + linear * tokens + quadratic * squares
///               + max(0, hop * hops - overlap * quadratic * squares)
///
/// where hop is a fitted or assumed coefficient per link. The last term is exposed communication; a time for
/// which it is above 0 is called exposed. The fit alternates, a bounded number of times and from several
/// starts, between two steps:
/// 1. Fit the coefficients to the times, given which times are exposed.
/// 2. Reclassify which times are exposed, given the coefficients.
///
/// A link's hop is fitted only if exposed communication improves the fit by more than the noise; otherwise,
/// the assumed hop is used. See fit_time_model(). Deterministic.
class TimeFit {
 public:
  /// Minimum number of exposed times needed to fit a link's hop. With fewer times, the hop would be
  /// fitted to noise.
  static constexpr std::ptrdiff_t fewest_exposed = 4;

  struct Result {
    Terms coefficients{};  ///< overhead, linear, quadratic
    /// Hop of each link; nullopt if the assumed hop is kept.
    std::array<std::optional<double>, num_links> hops{};
  };

  /// `assumed` contains the assumed hop of each link. Preconditions: `times` is not empty; overlap is from 0
  /// to 1.
  TimeFit(std::vector<ScaledTime> times, double overlap, const std::array<AssumedHop, num_links>& assumed);

  /// Returns the best fit. Returns nullopt if the times cannot distinguish tokens from squares, or if every
  /// solution has a negative coefficient.
  [[nodiscard]] std::optional<Result> best() const;

 private:
  /// The links whose hop (see TimeFit) is fitted, and the times that are assumed to be exposed.
  struct Choice {
    std::array<bool, num_links> fitted{};
    std::vector<char> exposed;
  };
  struct Fit {
    Choice choice;
    unsigned determined = 0;  ///< bit mask, over Terms, of the communication terms that were fitted
    Terms coefficients{};
    std::vector<double> distances;
  };

  [[nodiscard]] std::optional<Fit> fit_iteratively(Choice choice, int rounds) const;
  [[nodiscard]] Choice find_best_choice() const;
  [[nodiscard]] std::vector<Choice> starting_choices(Choice choice,
                                                     const std::array<bool, num_links>& fitted) const;
  [[nodiscard]] double noise_threshold() const;
  [[nodiscard]] double assumption_weight(const Fit& fit) const;
  [[nodiscard]] bool has_exposed_times(const Choice& choice, std::size_t link) const;
  void copy_exposed(const Choice& from, std::size_t link, Choice& to) const;
  [[nodiscard]] std::optional<Fit> best_fit_from(const std::vector<Choice>& starts) const;
  [[nodiscard]] unsigned extra_terms(const Choice& choice) const;
  void fill(std::vector<Row>& rows, const Choice& choice) const;
  [[nodiscard]] bool reclassify_exposed(Choice& choice, const Terms& coefficients) const;
  [[nodiscard]] double hop_of(std::size_t link, const Fit& fit) const;
  [[nodiscard]] std::vector<double> absolute_residuals_of(const Fit& fit) const;
  [[nodiscard]] double log_likelihood_gain(const Fit& fit, const Fit& over) const;

  std::vector<ScaledTime> times_;
  double overlap_;
  std::array<AssumedHop, num_links> assumed_;
  // For each link, the ratios ScaledTime::squares / ScaledTime::hops of the link's times, ascending.
  std::array<std::vector<double>, num_links> thresholds_;
  double rounding_ = 0;  // absolute residuals up to this are considered rounding errors
};

}  // namespace evenkeel
