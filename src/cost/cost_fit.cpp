#include "cost/cost_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "cost/time_fit.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

bool is_usable_observation(const CostObservation& observation) {
  return observation.tokens >= 0 && std::isfinite(observation.squares) && observation.squares >= 0 &&
         std::isfinite(observation.seconds) && observation.seconds > 0 && observation.ranks >= 1;
}

/// A unit of cost, and the cost model that uses this unit.
struct Unit {
  double seconds = 0;  ///< seconds per unit of cost
  CostModel model;
};

Unit unit_of(const TimeModel& times, TokenUnits lone_token = TokenUnits::one) {
  // Length in tokens. If attention takes less time than linear work even at this length, it is ignored.
  constexpr double longest = 1 << 30;
  if (times.linear > longest * times.quadratic) {
    const auto token = static_cast<std::int64_t>(lone_token);
    return {times.linear / static_cast<double>(token), {token, 0}};
  }
  constexpr double fine = 1024;
  const double ratio = times.linear / times.quadratic;
  const std::int64_t quadratic = ratio < fine ? 16 : 1;
  const auto units = static_cast<double>(quadratic);
  return {times.quadratic / units, {std::llround(ratio * units), quadratic}};
}

// Returns whether the times can be converted to integer costs: each coefficient is zero or a positive normal
// double, tokens or squares take time, and the seconds per unit of cost are a normal double.
bool is_usable(const TimeModel& times) {
  const auto is_ordinary = [](double c) { return c == 0 || (std::isnormal(c) && c > 0); };
  return is_ordinary(times.overhead) && is_ordinary(times.linear) && is_ordinary(times.quadratic) &&
         is_ordinary(times.inside_node.value_or(0)) && is_ordinary(times.between_nodes.value_or(0)) &&
         (times.linear > 0 || times.quadratic > 0) && std::isnormal(unit_of(times).seconds);
}

/// The usable observations, scaled: each quantity is divided by its maximum over all observations; hops, by
/// their maximum over the observations of the same kind of link.
struct ScaledTimes {
  std::vector<ScaledTime> times;
  ScaledTime largest;
  std::array<double, num_links> largest_hops{};

  ScaledTimes(std::span<const CostObservation> observations, std::int64_t ranks_per_node) {
    for (const CostObservation& each : observations) {
      if (is_usable_observation(each)) add(each, ranks_per_node);
    }
    drop_sparse_links();
    for (const ScaledTime& time : times) {
      largest.tokens = std::max(largest.tokens, time.tokens);
      largest.squares = std::max(largest.squares, time.squares);
      largest.seconds = std::max(largest.seconds, time.seconds);
      largest_hops[time.link] = std::max(largest_hops[time.link], time.hops);
    }
    // From here on, all values are at most 1, so sums cannot overflow.
    for (ScaledTime& time : times) {
      time.tokens /= largest.tokens;
      time.squares /= largest.squares;
      time.seconds /= largest.seconds;
      if (time.hops > 0) time.hops /= largest_hops[time.link];
    }
  }

  // Converts a coefficient of the scaled fit to the original units. `largest_term` is the maximum by which
  // the coefficient's term was divided.
  [[nodiscard]] double unscale_coefficient(double fitted, double largest_term) const {
    return fitted / largest_term * largest.seconds;
  }
  // Converts a link's assumed hop to scaled units, the inverse of unscale_coefficient().
  [[nodiscard]] AssumedHop scale_hop(const AssumedHop& hop, std::size_t link) const {
    const double hops = largest_hops[link];
    return {hop.seconds * hops / largest.seconds, hop.tokens * hops / largest.tokens,
            hop.squares * hops / largest.squares};
  }

 private:
  void add(const CostObservation& each, std::int64_t ranks_per_node) {
    const auto ranks = static_cast<double>(each.ranks);
    const double tokens = static_cast<double>(each.tokens) / ranks;
    times.push_back({tokens, each.squares / ranks, tokens * (ranks - 1),
                     each.ranks <= ranks_per_node ? std::size_t{0} : std::size_t{1}, each.seconds});
  }

  // Removes the observations of each kind of link if they are too few to fit the time of a hop over it
  // (TimeFit::fewest_exposed). Otherwise, the fit would attribute their communication to other terms.
  void drop_sparse_links() {
    for (std::size_t link = 0; link < num_links; ++link) {
      const auto is_of_link = [&](const ScaledTime& time) { return time.hops > 0 && time.link == link; };
      if (std::ranges::count_if(times, is_of_link) < TimeFit::fewest_exposed)
        std::erase_if(times, is_of_link);
    }
  }
};

}  // namespace

std::optional<TimeModel> fit_time_model(std::span<const CostObservation> observations,
                                        const FitGroups& groups) {
  const ScaledTimes scaled(observations, groups.ranks_per_node);
  constexpr std::size_t fewest = 16;
  if (scaled.times.size() < fewest || scaled.largest.tokens <= 0 || scaled.largest.squares <= 0)
    return std::nullopt;
  const auto fit =
      TimeFit(scaled.times, groups.overlap,
              {scaled.scale_hop(groups.inside_node, 0), scaled.scale_hop(groups.between_nodes, 1)})
          .best();
  if (!fit) return std::nullopt;
  TimeModel times{scaled.unscale_coefficient(fit->coefficients[0], 1),
                  scaled.unscale_coefficient(fit->coefficients[1], scaled.largest.tokens),
                  scaled.unscale_coefficient(fit->coefficients[2], scaled.largest.squares)};
  const auto& [inside_node, between_nodes] = fit->hops;
  if (inside_node) times.inside_node = scaled.unscale_coefficient(*inside_node, scaled.largest_hops[0]);
  if (between_nodes) times.between_nodes = scaled.unscale_coefficient(*between_nodes, scaled.largest_hops[1]);
  if (!is_usable(times)) return std::nullopt;
  return times;
}

CostModel cost_model_of(const TimeModel& times, TokenUnits units) {
  EVENKEEL_PRECONDITION(cheap, times.linear > 0 || times.quadratic > 0, times.linear, times.quadratic);
  return unit_of(times, units).model;
}

Cost cost_of_seconds(double seconds, const TimeModel& times, TokenUnits units) {
  constexpr double most = 1e14;  // keeps the sum over the micro-batches of a step within 64 bits
  return std::llround(std::min(seconds / unit_of(times, units).seconds, most));
}

Cost overhead_cost_of(const TimeModel& times, TokenUnits units) {
  return cost_of_seconds(times.overhead, times, units);
}

}  // namespace evenkeel
