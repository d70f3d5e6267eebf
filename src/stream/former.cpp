#include "stream/former.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "stream/step_cost_estimate.hpp"

namespace evenkeel::stream {
namespace {

/// Groups, given by their positions in the list of waiting groups or in the window (see Window).
using Groups = std::vector<std::size_t>;

/// Limit on the work of a Window's search for swaps, which keeps it within a few milliseconds. Visiting a
/// pair of groups costs 1, and evaluating a swap costs 40 plus the number of large units in both steps.
constexpr std::int64_t max_work = 100'000;

/// Returns the version of the group's oldest sample that is not stale yet. Returns nullopt if all of its
/// samples are stale, which OnStale::mask allows. Ignores stale samples, since it makes no difference how
/// long they wait.
std::optional<std::int64_t> oldest_fresh_version(const WaitingGroup& group, const FormStepInput& problem) {
  std::optional<std::int64_t> oldest;
  for (const WaitingSample& sample : group.samples) {
    if (problem.stream.is_stale(sample.version, problem.version)) continue;
    oldest = std::min(oldest.value_or(sample.version), sample.version);
  }
  return oldest;
}

/// A waiting group with at least one sample that is not stale yet.
struct AgingGroup {
  std::int64_t version = 0;  // version of the group's oldest sample that is not stale yet
  std::size_t position = 0;  // index in the list of waiting groups
};

/// Returns how many of the groups with the oldest versions must be in this step so that all groups can be
/// trained before they become stale. `waiting` must be sorted by version.
std::int64_t count_urgent(std::span<const AgingGroup> waiting, const FormStepInput& problem) {
  std::vector<std::int64_t> versions(problem.expected_versions.begin(), problem.expected_versions.end());
  std::erase_if(versions, [&](std::int64_t v) { return problem.stream.is_stale(v, problem.version); });
  for (const AgingGroup& group : waiting) versions.push_back(group.version);
  std::ranges::sort(versions);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    // Number of later steps in which the group can still be trained before it becomes stale.
    const std::int64_t later = versions[i] + *problem.stream.max_staleness - problem.version;
    most = std::max(most, static_cast<std::int64_t>(i) + 1 - later * problem.groups);
  }
  return std::min({most, problem.groups, std::ssize(waiting)});
}

/// Returns the groups that would become stale if they were not in this step, in queue order.
Groups urgent_groups(const FormStepInput& problem) {
  if (!problem.stream.max_staleness) return {};
  std::vector<AgingGroup> aging;
  for (std::size_t g = 0; g < problem.waiting.size(); ++g) {
    if (const auto version = oldest_fresh_version(problem.waiting[g], problem))
      aging.push_back({*version, g});
  }
  std::ranges::stable_sort(aging, {}, &AgingGroup::version);
  aging.resize(static_cast<std::size_t>(count_urgent(aging, problem)));
  Groups groups;
  for (const AgingGroup& group : aging) groups.push_back(group.position);
  std::ranges::sort(groups);
  return groups;
}

/// Division of a window's groups into steps. The step with index `next` becomes the next step to form.
struct StepDivision {
  std::vector<Groups> steps;
  std::vector<StepCostEstimate::Sums> sums;
  std::vector<StepCostEstimate::Time> times;
  std::size_t next = 0;

  [[nodiscard]] double total_time() const {
    return std::accumulate(times.begin(), times.end(), 0.0,
                           [](double sum, const StepCostEstimate::Time& time) { return sum + time.all; });
  }
};

/// Returns whether a < b by more than rounding errors.
bool is_less(double a, double b) {
  return a < b * (1 - 1e-12);
}

/// The waiting groups from which the next step is chosen (the window), and the search for the best division
/// of these groups into steps that has all pinned groups in the next step.
class Window {
 public:
  /// `pinned` has the positions of the groups that must be in the next step, in ascending order, and at most
  /// as many as a step has groups.
  Window(std::span<const WaitingGroup> groups, const Groups& pinned, const FormStepInput& problem)
      : estimate_(groups, problem.groups, problem.plan),
        pinned_(pinned),
        is_pinned_(groups.size()),
        groups_per_step_(static_cast<std::size_t>(problem.groups)),
        has_ended_(problem.ended) {
    for (const std::size_t group : pinned_) is_pinned_[group] = true;
    for (std::size_t group = 0; group < groups.size(); ++group)
      if (!is_pinned_[group]) free_.push_back(group);
  }

  [[nodiscard]] Groups search_next_step() {
    StepDivision best = divide_into_steps(free_, 0);
    const auto consider = [&](const Groups& order) {
      for (const std::size_t at : candidate_positions()) {
        StepDivision other = divide_into_steps(order, at);
        if (is_less(other.total_time(), best.total_time())) best = std::move(other);
      }
    };
    consider(free_);
    const auto longest = [&](std::size_t g) { return estimate_[g].longest; };
    const auto load = [&](std::size_t g) { return estimate_[g].load; };
    for (const bool by_load : {false, true}) {
      Groups order = free_;
      by_load ? std::ranges::stable_sort(order, {}, load) : std::ranges::stable_sort(order, {}, longest);
      consider(order);
      std::ranges::reverse(order);
      consider(order);
    }
    swap_groups(best);
    if (pinned_.empty()) choose_next(best);
    return replace_with_earliest_groups(best.steps[best.next]);
  }

 private:
  /// Returns the indexes in StepDivision::steps that the search tries for the step with the pinned groups. It
  /// tries only a few of them.
  [[nodiscard]] std::vector<std::size_t> candidate_positions() const {
    const std::size_t full = estimate_.size() / groups_per_step_;
    if (pinned_.empty() || full <= 1) return {0};
    std::vector<std::size_t> places{0, full / 3, full - full / 3 - 1, full - 1};
    places.erase(std::ranges::unique(places).begin(), places.end());
    return places;
  }

  /// Fills steps with the groups in the order `order`. The step with index `at` becomes the next step and
  /// begins with the pinned groups.
  [[nodiscard]] StepDivision divide_into_steps(const Groups& order, std::size_t at) {
    StepDivision cut;
    cut.next = at;
    for (auto from = order.begin(); from != order.end() || cut.steps.size() <= at;) {
      Groups& step = cut.steps.emplace_back();
      if (cut.steps.size() == at + 1) step = pinned_;
      const auto room = static_cast<std::ptrdiff_t>(groups_per_step_ - step.size());
      const auto to = from + std::min(room, order.end() - from);
      step.insert(step.end(), from, to);
      from = to;
    }
    for (const Groups& step : cut.steps) {
      // Assume that groups that have not arrived yet complete the step, unless the stream has ended.
      const std::size_t missing = has_ended_ ? 0 : groups_per_step_ - step.size();
      cut.sums.push_back(estimate_.sums_of(step, static_cast<std::int64_t>(missing)));
      cut.times.push_back(estimate_.time_of(cut.sums.back()));
    }
    return cut;
  }

  /// Swaps pairs of groups between steps as long as the total time of the steps decreases. Tries the groups
  /// with the longest units first.
  void swap_groups(StepDivision& cut) {
    std::vector<std::pair<std::size_t, std::size_t>> places;  // index in cut.steps, and position in this step
    for (std::size_t s = 0; s < cut.steps.size(); ++s)
      for (std::size_t i = 0; i < cut.steps[s].size(); ++i)
        if (!is_pinned_[cut.steps[s][i]]) places.emplace_back(s, i);
    std::ranges::stable_sort(places, std::ranges::greater{}, [&](const auto& place) {
      return estimate_[cut.steps[place.first][place.second]].longest;
    });
    bool is_better = cut.steps.size() > 1;
    while (is_better) {
      is_better = false;
      for (std::size_t a = 0; a < places.size(); ++a) {
        for (std::size_t b = a + 1; b < places.size(); ++b) {
          if (--work_ <= 0) return;
          if (places[a].first == places[b].first || !has_idle_time(cut, places[a].first, places[b].first))
            continue;
          if (swap_if_better(cut, places[a], places[b])) is_better = true;
        }
      }
    }
  }

  /// Returns whether a swap of groups between steps `a` and `b` could reduce their total time, which is
  /// possible only if at least one of them has idle time.
  [[nodiscard]] static bool has_idle_time(const StepDivision& cut, std::size_t a, std::size_t b) {
    return cut.times[a].idle > 0 || cut.times[b].idle > 0;
  }

  [[nodiscard]] bool swap_if_better(StepDivision& cut, std::pair<std::size_t, std::size_t> a,
                                    std::pair<std::size_t, std::size_t> b) {
    std::size_t& of_a = cut.steps[a.first][a.second];
    std::size_t& of_b = cut.steps[b.first][b.second];
    StepCostEstimate::Sums sums_a = estimate_.sums_after_swap(cut.sums[a.first], of_a, of_b);
    StepCostEstimate::Sums sums_b = estimate_.sums_after_swap(cut.sums[b.first], of_b, of_a);
    work_ -= 40 + std::ssize(sums_a.units) + std::ssize(sums_b.units);
    const StepCostEstimate::Time time_a = estimate_.time_of(sums_a);
    const StepCostEstimate::Time time_b = estimate_.time_of(sums_b);
    if (!is_less(time_a.all + time_b.all, cut.times[a.first].all + cut.times[b.first].all)) return false;
    std::swap(of_a, of_b);
    cut.sums[a.first] = std::move(sums_a);
    cut.sums[b.first] = std::move(sums_b);
    cut.times[a.first] = time_a;
    cut.times[b.first] = time_b;
    return true;
  }

  /// Chooses the full step with the least idle time as the next step. On a tie, chooses the step whose groups
  /// came first.
  void choose_next(StepDivision& cut) const {
    std::optional<std::pair<double, std::size_t>> best;
    for (std::size_t s = 0; s < cut.steps.size(); ++s) {
      if (cut.steps[s].size() < groups_per_step_ && cut.steps.size() > 1) continue;
      const double idle = std::max(0.0, cut.times[s].idle - 1e-9 * cut.times[s].all);
      const std::pair key(idle, std::accumulate(cut.steps[s].begin(), cut.steps[s].end(), std::size_t{0}));
      if (best && *best <= key) continue;
      best = key;
      cut.next = s;
    }
  }

  /// Replaces each group that is not pinned with the earliest possible group of equal cost. Returns the
  /// step's groups in ascending order.
  [[nodiscard]] Groups replace_with_earliest_groups(const Groups& step) const {
    std::vector<bool> is_in(estimate_.size());
    for (const std::size_t group : step) is_in[group] = true;
    const auto kind = [&](std::size_t g) {
      return std::tie(estimate_[g].load, estimate_[g].longest, estimate_[g].tokens, estimate_[g].units);
    };
    Groups by_kind = free_;
    std::ranges::stable_sort(by_kind, [&](std::size_t a, std::size_t b) { return kind(a) < kind(b); });
    for (auto first = by_kind.begin(); first != by_kind.end();) {
      const auto end =
          std::find_if(first, by_kind.end(), [&](std::size_t g) { return kind(*first) < kind(g); });
      auto chosen = std::count_if(first, end, [&](std::size_t g) { return is_in[g]; });
      for (; first != end; ++first) is_in[*first] = chosen-- > 0;
    }
    Groups earliest;
    for (std::size_t group = 0; group < is_in.size(); ++group)
      if (is_in[group]) earliest.push_back(group);
    return earliest;
  }

  StepCostEstimate estimate_;
  const Groups& pinned_;
  std::vector<bool> is_pinned_;
  Groups free_;
  std::size_t groups_per_step_;
  bool has_ended_;
  std::int64_t work_ = max_work;  ///< remaining part of the work limit
};

/// Returns the positions of the next step's groups in the list of waiting groups, in ascending order.
Groups choose_groups(const FormStepInput& problem) {
  const auto of_step = static_cast<std::size_t>(problem.groups);
  const std::size_t all = problem.waiting.size();
  // Pinned groups: first urgent ones, then groups that were passed over too often, in queue order.
  Groups pinned = urgent_groups(problem);
  std::vector<bool> is_pinned(all);
  for (const std::size_t group : pinned) is_pinned[group] = true;
  const std::int64_t max_passed = (problem.stream.look_ahead - 1) * problem.groups;
  for (std::size_t group = 0; group < all && pinned.size() < of_step; ++group) {
    if (is_pinned[group] || problem.waiting[group].passed <= max_passed) continue;
    is_pinned[group] = true;
    pinned.push_back(group);
  }
  if (pinned.size() == of_step || all <= of_step) {
    for (std::size_t group = 0; group < all && pinned.size() < of_step; ++group)
      if (!is_pinned[group]) pinned.push_back(group);
    std::ranges::sort(pinned);
    return pinned;
  }
  // The window consists of the first groups of the queue and all pinned groups, wherever they are in the
  // queue.
  const std::size_t most = of_step * static_cast<std::size_t>(1 + problem.stream.look_ahead);
  std::size_t left = most - std::min(most, pinned.size());
  std::vector<WaitingGroup> groups;
  Groups positions;
  Groups pinned_in_window;
  for (std::size_t group = 0; group < all; ++group) {
    if (is_pinned[group]) {
      pinned_in_window.push_back(groups.size());
    } else if (left == 0) {
      continue;
    } else {
      --left;
    }
    groups.push_back(problem.waiting[group]);
    positions.push_back(group);
  }
  Groups next = Window(groups, pinned_in_window, problem).search_next_step();
  for (std::size_t& group : next) group = positions[group];
  return next;
}

/// Returns the groups that remain in the queue although later groups were put into steps, each with the total
/// number of these later groups. `next` has the positions of the groups of the next step.
std::vector<PassedOver> find_passed_over_groups(const FormStepInput& problem, const Groups& next) {
  std::vector<PassedOver> passed;
  auto later = std::ssize(next);
  auto at = next.begin();
  for (std::size_t group = 0; group < problem.waiting.size(); ++group) {
    if (at != next.end() && *at == group) {
      ++at;
      --later;
      continue;
    }
    const std::int64_t count = problem.waiting[group].passed + later;
    if (count > 0) passed.push_back({problem.waiting[group].uid, count});
  }
  return passed;
}

}  // namespace

std::optional<StepFormed> form_step(const FormStepInput& problem) {
  EVENKEEL_PRECONDITION(cheap, problem.groups >= 1, problem.groups);
  const auto number = std::ssize(problem.waiting);
  if (number == 0 || (number < problem.groups && !problem.ended)) return std::nullopt;
  const Groups next = choose_groups(problem);
  StepFormed formed{problem.step, problem.version, {}, {}, find_passed_over_groups(problem, next)};
  for (const std::size_t group : next) {
    const WaitingGroup& of = problem.waiting[group];
    formed.groups.push_back({of.uid, std::ssize(of.samples)});
    for (const WaitingSample& sample : of.samples)
      if (problem.stream.is_stale(sample.version, problem.version)) formed.masked.push_back(sample.arrival);
  }
  std::ranges::sort(formed.masked);
  return formed;
}

}  // namespace evenkeel::stream
