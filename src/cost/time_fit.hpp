#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "cost/cost_fit.hpp"
#include "cost/robust_squares.hpp"

namespace evenkeel {

/// Kinds of links: inside a node, between nodes.
inline constexpr std::size_t num_links = 2;

/// The time of a micro-batch and its parts on one rank of its group, each divided by its largest value.
struct ScaledTime {
  double tokens = 0;
  double squares = 0;
  double hops = 0;  ///< tokens that pass by, times the ranks that they pass on to; 0 in a group of one
  std::size_t link = 0;
  double seconds = 0;
};

/// seconds ~ overhead + linear tokens + quadratic squares + max(0, hop hops - overlap quadratic squares), by
/// robust least squares without negative coefficients. Which times have communication that is exposed, the
/// max, is found by alternating: coefficients from times as they are classified, classes from coefficients, a
/// bounded number of times and from several starts. A link's hop is fitted only where exposed
/// communication explains the times beyond noise, and is otherwise kept: see fit_time_model. Deterministic.
class TimeFit {
 public:
  /// Times with exposed communication that tell a hop; of fewer it would be made of noise.
  static constexpr std::ptrdiff_t fewest_exposed = 4;

  struct Result {
    Terms coefficients{};  ///< overhead, linear, quadratic
    /// Of each link; unset where it stays as it is.
    std::array<std::optional<double>, num_links> hops{};
  };

  /// Preconditions: `times` is not empty; overlap is from 0 to 1.
  TimeFit(std::vector<ScaledTime> times, double overlap, const std::array<PresentHop, num_links>& present);

  /// Nothing when the times cannot separate tokens from squares.
  [[nodiscard]] std::optional<Result> best() const;

 private:
  /// Which hops are fitted, and which times are taken to have exposed communication.
  struct Choice {
    std::array<bool, num_links> fitted{};
    std::vector<char> exposed;
  };
  struct Fit {
    Choice choice;
    unsigned told = 0;  ///< bits of the terms that communication has in the equations
    Terms coefficients{};
    std::vector<double> distances;
  };

  [[nodiscard]] std::optional<Fit> run(Choice choice, int rounds) const;
  [[nodiscard]] Choice choose() const;
  [[nodiscard]] std::vector<Choice> starts(Choice choice, const std::array<bool, num_links>& fitted) const;
  [[nodiscard]] double beyond_noise() const;
  [[nodiscard]] double assumptions_of(const Fit& fit) const;
  [[nodiscard]] bool shows(const Choice& choice, std::size_t link) const;
  void copy_exposed(const Choice& from, std::size_t link, Choice& to) const;
  [[nodiscard]] std::optional<Fit> best_of(const std::vector<Choice>& starts) const;
  [[nodiscard]] unsigned extra_terms(const Choice& choice) const;
  void fill(std::vector<Row>& rows, const Choice& choice) const;
  [[nodiscard]] bool expose(Choice& choice, const Terms& coefficients) const;
  [[nodiscard]] double hop_of(std::size_t link, const Fit& fit) const;
  [[nodiscard]] std::vector<double> distances_of(const Fit& fit) const;
  [[nodiscard]] double gain(const Fit& fit, const Fit& over) const;

  std::vector<ScaledTime> times_;
  double overlap_;
  std::array<PresentHop, num_links> present_;
  std::array<std::vector<double>, num_links> thresholds_;  // squares over hops of each link's times, rising
  double rounding_ = 0;                                    // distances below are no distances
};

}  // namespace evenkeel
