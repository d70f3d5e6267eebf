#include "cost/time_fit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

constexpr std::size_t hop_term = 3;  // index in Terms of communication over the first kind of link
constexpr int few_rounds = 6;        // rounds of fit_iteratively() that suffice to compare choices

unsigned link_bit(std::size_t link) {
  return 1U << (hop_term + link);
}

}  // namespace

TimeFit::TimeFit(std::vector<ScaledTime> times, double overlap,
                 const std::array<AssumedHop, num_links>& assumed)
    : times_(std::move(times)), overlap_(overlap), assumed_(assumed) {
  EVENKEEL_PRECONDITION(cheap, !times_.empty());
  EVENKEEL_PRECONDITION(cheap, overlap >= 0 && overlap <= 1, overlap);
  std::vector<double> seconds;
  for (const ScaledTime& time : times_) {
    seconds.push_back(time.seconds);
    if (time.hops > 0) thresholds_[time.link].push_back(time.squares / time.hops);
  }
  for (std::vector<double>& of_link : thresholds_) std::ranges::sort(of_link);
  rounding_ = 1e-9 * median(std::move(seconds));
}

std::optional<TimeFit::Result> TimeFit::best() const {
  constexpr int rounds = 30;
  const std::optional<Fit> fit = fit_iteratively(find_best_choice(), rounds);
  if (!fit) return std::nullopt;
  Result result{fit->coefficients, {}};
  for (std::size_t link = 0; link < num_links; ++link) {
    const double hop = hop_of(link, *fit);
    const double assumed = assumed_[link](fit->coefficients[1], fit->coefficients[2]);
    const bool determined = (fit->determined & link_bit(link)) != 0 || hop < assumed;
    if (fit->choice.fitted[link] && determined) result.hops[link] = hop;
  }
  return result;
}

// Tries to fit the hop (see TimeFit) of no link, of each link alone, and of both links. A fit that makes more
// assumptions wins only if it explains the times better by more than the noise.
TimeFit::Choice TimeFit::find_best_choice() const {
  const Choice all_kept{{}, std::vector<char>(times_.size())};
  std::optional<Fit> best;
  const auto keep_if_better = [&](std::optional<Fit> fit) {
    if (!fit) return;
    if (!best || log_likelihood_gain(*fit, *best) >
                     noise_threshold() * (assumption_weight(*fit) - assumption_weight(*best)))
      best = std::move(fit);
  };
  const auto has_enough_observations = [&](std::size_t link) {
    return std::ssize(thresholds_[link]) >= fewest_exposed;
  };
  if (!has_enough_observations(0) && !has_enough_observations(1)) return all_kept;
  keep_if_better(fit_iteratively(all_kept, few_rounds));
  // When fitting the hops of both links, also start from the times that were classified as exposed when each
  // hop was fitted alone.
  std::vector<Choice> both = starting_choices(all_kept, {true, true});
  both.push_back(both.back());
  for (std::size_t link = 0; link < num_links; ++link) {
    if (!has_enough_observations(link)) continue;
    std::optional<Fit> fit = best_fit_from(starting_choices(all_kept, {link == 0, link == 1}));
    if (fit) copy_exposed(fit->choice, link, both.back());
    keep_if_better(std::move(fit));
  }
  if (has_enough_observations(0) && has_enough_observations(1)) keep_if_better(best_fit_from(both));
  return best ? best->choice : all_kept;
}

// Returns the sum of both links' weights. The more a fit assumes about a link, the higher the link's weight
// (for hops and exposed times, see TimeFit):
// - 0: the hop is not fitted, and no times are exposed.
// - 1: the hop is fitted, and it affects the times.
// - 1.5: the hop is not fitted, but its assumed value affects the times.
// - 2: the hop is fitted, but it does not affect the times.
double TimeFit::assumption_weight(const Fit& fit) const {
  double sum = 0;
  for (std::size_t link = 0; link < num_links; ++link) {
    if (fit.choice.fitted[link]) {
      sum += (fit.determined & link_bit(link)) != 0 ? 1 : 2;
    } else if (has_exposed_times(fit.choice, link)) {
      sum += 1.5;
    }
  }
  return sum;
}

bool TimeFit::has_exposed_times(const Choice& choice, std::size_t link) const {
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (choice.exposed[i] != 0 && times_[i].link == link) return true;
  }
  return false;
}

// Returns choices in which none, a quarter, half or all of each fitted link's times are initially classified
// as exposed (see TimeFit). The times with the least attention to hide their communication are classified as
// exposed first.
std::vector<TimeFit::Choice> TimeFit::starting_choices(Choice choice,
                                                       const std::array<bool, num_links>& fitted) const {
  std::vector<Choice> starts;
  choice.fitted = fitted;
  for (const std::size_t quarters : {0U, 1U, 2U, 4U}) {
    std::array<double, num_links> last{-1, -1};
    for (std::size_t link = 0; link < num_links; ++link) {
      const std::size_t exposed = thresholds_[link].size() * quarters / 4;
      if (fitted[link] && exposed > 0) last[link] = thresholds_[link][exposed - 1];
    }
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const ScaledTime& time = times_[i];
      choice.exposed[i] = time.hops > 0 && time.squares / time.hops <= last[time.link] ? 1 : 0;
    }
    starts.push_back(choice);
  }
  return starts;
}

void TimeFit::copy_exposed(const Choice& from, std::size_t link, Choice& to) const {
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (times_[i].link == link) to.exposed[i] = from.exposed[i];
  }
}

// Returns the best fit from these starts. A fit in which more hops affect the times wins only if it explains
// the times better by more than the noise.
std::optional<TimeFit::Fit> TimeFit::best_fit_from(const std::vector<Choice>& starts) const {
  std::optional<Fit> best;
  for (const Choice& start : starts) {
    std::optional<Fit> fit = fit_iteratively(start, few_rounds);
    if (!fit) continue;
    const int more = best ? std::popcount(fit->determined) - std::popcount(best->determined) : 0;
    if (!best || log_likelihood_gain(*fit, *best) > noise_threshold() * more) best = std::move(fit);
  }
  return best;
}

// Returns the log-likelihood gain that a fit needs, per additional unit of assumption_weight() or additional
// fitted communication term, to be preferred to a simpler fit. This is four times the gain that Schwarz's
// criterion (1978) requires, since each fit is the best of several.
double TimeFit::noise_threshold() const {
  return 2 * std::log(static_cast<double>(times_.size()));
}

std::optional<TimeFit::Fit> TimeFit::fit_iteratively(Choice choice, int rounds) const {
  std::vector<Row> rows(times_.size());
  fill(rows, choice);
  unsigned determined = extra_terms(choice);
  std::optional<Terms> terms = solve_nonnegative_least_squares(rows, determined);
  for (int round = 0; terms && round < rounds; ++round) {
    const bool moved = reclassify_exposed(choice, *terms);
    if (moved) fill(rows, choice);
    if (!reweight(rows, *terms, rounding_) && !moved) break;
    determined = extra_terms(choice);
    terms = solve_nonnegative_least_squares(rows, determined);
  }
  if (!terms) return std::nullopt;
  Fit fit{std::move(choice), determined, *terms, {}};
  fit.distances = absolute_residuals_of(fit);
  return fit;
}

// Sets the terms, seconds and offsets of all rows, but not their weights. If a time is exposed (see TimeFit),
// its communication is included: as a term of its own if its link's hop is fitted, otherwise with the assumed
// hop.
void TimeFit::fill(std::vector<Row>& rows, const Choice& choice) const {
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const ScaledTime& time = times_[i];
    Row& row = rows[i];
    row.terms = {1, time.tokens, time.squares};
    row.seconds = time.seconds;
    row.offset = 0;
    if (choice.exposed[i] == 0) continue;
    row.terms[2] = (1 - overlap_) * time.squares;
    if (choice.fitted[time.link]) {
      row.terms[hop_term + time.link] = time.hops;
    } else {
      const AssumedHop& assumed = assumed_[time.link];
      row.offset = assumed.seconds * time.hops;
      row.terms[1] += assumed.tokens * time.hops;
      row.terms[2] += assumed.squares * time.hops;
    }
  }
}

unsigned TimeFit::extra_terms(const Choice& choice) const {
  unsigned extra = 0;
  for (std::size_t link = 0; link < num_links; ++link) {
    if (choice.fitted[link] && has_exposed_times(choice, link)) extra |= link_bit(link);
  }
  return extra;
}

// Reclassifies the times by whether their communication is exposed (see TimeFit), given the coefficients.
// Returns whether any classification changed.
bool TimeFit::reclassify_exposed(Choice& choice, const Terms& coefficients) const {
  std::array<double, num_links> hops{};
  for (std::size_t link = 0; link < num_links; ++link) {
    hops[link] = choice.fitted[link] ? coefficients[hop_term + link]
                                     : assumed_[link](coefficients[1], coefficients[2]);
    // If time.squares / time.hops is at most this ratio, attention hides too little of the communication, so
    // the time is exposed.
    const double ratio = hops[link] / (overlap_ * coefficients[2]);
    const std::vector<double>& thresholds = thresholds_[link];
    if (choice.fitted[link] && !std::isnan(ratio) &&
        std::ranges::upper_bound(thresholds, ratio) - thresholds.begin() < fewest_exposed)
      hops[link] = 0;
  }
  bool moved = false;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const ScaledTime& time = times_[i];
    const double hop = hops[time.link];
    const bool exposed =
        time.hops > 0 && hop > 0 && hop * time.hops >= overlap_ * coefficients[2] * time.squares;
    moved = moved || exposed != (choice.exposed[i] != 0);
    choice.exposed[i] = exposed ? 1 : 0;
  }
  return moved;
}

// Returns a link's hop (see TimeFit) according to the fit: the assumed hop if it was not fitted. If it was
// fitted but none of the link's times are exposed, returns the smaller of the assumed hop and the upper bound
// that the times give.
double TimeFit::hop_of(std::size_t link, const Fit& fit) const {
  const double assumed = assumed_[link](fit.coefficients[1], fit.coefficients[2]);
  if (!fit.choice.fitted[link]) return assumed;
  if ((fit.determined & link_bit(link)) != 0) return fit.coefficients[hop_term + link];
  return std::min(assumed, overlap_ * fit.coefficients[2] * thresholds_[link].front());
}

std::vector<double> TimeFit::absolute_residuals_of(const Fit& fit) const {
  const Terms& c = fit.coefficients;
  const std::array<double, num_links> hops{hop_of(0, fit), hop_of(1, fit)};
  std::vector<double> distances;
  for (const ScaledTime& time : times_) {
    const double attention = c[2] * time.squares;
    const double exposed = std::max(0.0, hops[time.link] * time.hops - overlap_ * attention);
    distances.push_back(std::abs(time.seconds - (c[0] + c[1] * time.tokens + attention + exposed)));
  }
  return distances;
}

// Returns how much the log-likelihood of `fit` exceeds that of `over`, assuming Laplace-distributed
// residuals. Residuals above 10 times the usual noise are truncated to that.
double TimeFit::log_likelihood_gain(const Fit& fit, const Fit& over) const {
  const double usual =
      std::max(rounding_, std::min(median(fit.distances), median(over.distances)) / std::log(2.0));
  constexpr double most = 10;
  double sum = 0;
  for (std::size_t i = 0; i < times_.size(); ++i)
    sum += std::min(most, over.distances[i] / usual) - std::min(most, fit.distances[i] / usual);
  return sum;
}

}  // namespace evenkeel
