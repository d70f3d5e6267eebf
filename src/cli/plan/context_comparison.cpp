#include "cli/plan/context_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <span>
#include <vector>

#include "balance/context/speeds.hpp"
#include "base/text_layout.hpp"
#include "cli/plan/plan_comparison.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/strategies/flexible_groups.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {
namespace {

/// Settings shared by all choices of context parallelism: the number of places (ranks divided by tp and pp),
/// the token cap per rank, and the cost of samples.
class ContextWays {
 public:
  ContextWays(const LengthTable& table, const PlanSettings& given)
      : table_(table),
        places_(given.dp * given.cp.size),
        tokens_per_rank_(given.micro_batch.max_tokens / given.cp.size) {
    plain_.tp = given.tp;
    plain_.cp.layout = given.cp.layout;
    plain_.align_lcm = given.align_lcm;
    plain_.micro_batch.max_samples = given.micro_batch.max_samples;
    plain_.balance.cost = comparison_cost_model(given);
    plain_.balance.overhead = given.balance.overhead;
    plain_.balance.communication = given.balance.communication;
    for (const std::int64_t speed : given.balance.speeds)
      speeds_.insert(speeds_.end(), static_cast<std::size_t>(given.cp.size), speed);
    // Cumulative lengths are 32-bit integers, so they limit the number of ranks in a group.
    const std::int64_t countable =
        std::numeric_limits<std::int32_t>::max() / std::max<std::int64_t>(1, tokens_per_rank_);
    const auto most = static_cast<int>(std::min<std::int64_t>(places_, countable));
    const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(most)));
    const auto* groups = given.find<ContextGroupSettings>();
    groups_ = groups != nullptr ? *groups : ContextGroupSettings{power};
    // If the user has set a limit, it also applies to a fixed cp.
    max_fixed_ = groups_.max_size < power ? groups_.max_size : most;
  }

  [[nodiscard]] std::int64_t tokens_per_rank() const noexcept { return tokens_per_rank_; }

  [[nodiscard]] PlanSettings fixed_cp_settings(int cp, bool meets) const {
    PlanSettings settings = plain_;
    settings.cp.size = cp;
    settings.dp = places_ / cp;
    settings.micro_batch.max_tokens = tokens_per_rank_ * cp;
    if (meets) {
      settings.strategy = GridSettings{};  // a grid does not support ranks of different speeds
    } else {
      set_speeds(settings);
    }
    return settings;
  }
  [[nodiscard]] PlanSettings flexible_cp_settings(bool meets) const {
    PlanSettings settings = fixed_cp_settings(1, meets);
    if (meets) {
      settings.strategy = ContextWavesSettings{groups_};
      set_speeds(settings);
    } else {
      settings.strategy = ContextTreeSettings{groups_};
    }
    return settings;
  }

  /// Returns whether `cp` divides the number of places and every sample fits under the cap of `cp` ranks.
  [[nodiscard]] bool fits(int cp) const {
    if (places_ % cp != 0) return false;
    const PlanSettings settings = fixed_cp_settings(cp, false);
    const std::int64_t fitting = settings.cap(cp) / settings.alignment() * settings.alignment();
    return longest_length() <= fitting;
  }
  [[nodiscard]] std::int64_t longest_length() const {
    std::int64_t longest = 0;
    for (const LengthEntry& entry : table_.entries()) longest = std::max(longest, entry.shape.length());
    return longest;
  }

  /// Returns the best fixed cp, or nullopt if no cp fits all samples.
  [[nodiscard]] std::optional<ComparedContext> plan_best_fixed_cp(bool meets) const {
    std::optional<ComparedContext> best;
    for (int cp = 1; cp <= max_fixed_; ++cp) {
      if (!fits(cp)) continue;
      const ComparedContext compared = plan_fixed(cp, meets);
      if (!best || compared.end < best->end) best = compared;
    }
    return best;
  }

  [[nodiscard]] bool groups_fit() const {
    const PlanSettings settings = flexible_cp_settings(false);
    const std::int64_t cap = settings.cap(settings.largest_group());
    const std::int64_t alignment = settings.alignment(settings.largest_group());
    return longest_length() <= cap / alignment * alignment;
  }
  [[nodiscard]] ComparedContext plan_flexible(bool meets) const {
    return plan(flexible_cp_settings(meets), meets, [](MicroBatchPlan&, ContextGroup) {});
  }
  [[nodiscard]] Cost lower_bound() const {
    return flexible_lower_bound({table_, flexible_cp_settings(false)});
  }

 private:
  /// Makes a plan with these settings. `to_time` replaces the cost of a micro-batch with the time of its
  /// group; it does nothing if costs are already times.
  template <typename ToTime>
  [[nodiscard]] ComparedContext plan(const PlanSettings& settings, bool meets, ToTime to_time) const {
    const auto start = std::chrono::steady_clock::now();
    StepPlan plan = plan_step({table_, settings});
    ComparedContext compared;
    compared.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    compared.cp = strategy_of(settings).has_flexible_groups() ? 0 : settings.cp.size;
    compared.meets = meets;
    compared.micro_batches = plan.num_micro_batches();
    for (std::size_t r = 0; r < plan.ranks.size(); ++r)
      for (MicroBatchPlan& m : plan.ranks[r].micro_batches)
        to_time(m, settings.context_of(DpRank{static_cast<int>(r)}));
    compared.end = end_time_of(plan, meets);
    return compared;
  }

  [[nodiscard]] ComparedContext plan_fixed(int cp, bool meets) const {
    const PlanSettings settings = fixed_cp_settings(cp, meets);
    const CommunicationCost cost = settings.communication_cost();
    return plan(settings, meets, [&](MicroBatchPlan& m, ContextGroup places) {
      const ContextWork work{m.tokens, m.cost, m.cost - settings.balance.cost.linear * m.tokens};
      m.cost = to_fastest_rank_time(time_on(work, cp, cost), places);
    });
  }

  void set_speeds(PlanSettings& settings) const {
    for (int r = 0; r < settings.dp && !speeds_.empty(); ++r)
      settings.balance.speeds.push_back(speed_of(settings.context_of(DpRank{r})));
  }
  /// Returns the speed of the group's slowest member, which determines the group's speed.
  [[nodiscard]] std::int64_t speed_of(ContextGroup group) const {
    const auto size = static_cast<std::size_t>(group.size);
    return std::ranges::min(std::span(speeds_).subspan(group.first.index(), size));
  }
  /// Converts a group's time to units of the fastest rank's time, which plans with groups of different sizes
  /// also use.
  [[nodiscard]] Cost to_fastest_rank_time(Cost time, ContextGroup group) const {
    return speeds_.empty() ? time : context::slowed_time(time, std::ranges::max(speeds_), speed_of(group));
  }

  const LengthTable& table_;
  int places_;
  std::int64_t tokens_per_rank_;
  ContextGroupSettings groups_;
  int max_fixed_ = 1;
  std::vector<std::int64_t> speeds_;  ///< relative speed of each place; empty if all are equal
  PlanSettings plain_;
};

double ratio(Cost longer, Cost shorter) {
  return shorter == 0 ? 1 : static_cast<double>(longer) / static_cast<double>(shorter);
}

std::string describe_context(const ComparedContext& way) {
  return (way.cp == 0 ? std::string("cp flexible") : fmt::format("cp {}", way.cp)) +
         (way.meets ? ", ranks meet" : "");
}

/// Returns the number of samples that need more than one rank as text, such as "3 of 512 samples".
std::string long_samples_text(const LengthTable& table, const ContextWays& ways) {
  const std::int64_t count = std::ranges::count_if(table.entries(), [&](const LengthEntry& entry) {
    return entry.shape.length() > ways.tokens_per_rank();
  });
  return fmt::format("{} of {}", format_with_commas(count), format_count(table.size(), "sample"));
}

/// The best fixed cp, and groups of different sizes, for one value of balance.meet.
struct BestWays {
  std::optional<ComparedContext> fixed;
  ComparedContext flexible;

  [[nodiscard]] double gain() const { return ratio(fixed->end, flexible.end); }
};

std::string advice_text(const LengthTable& table, const ContextWays& ways, const BestWays& once,
                        const BestWays& meeting) {
  const std::string lengths = fmt::format(
      "{} are longer than the {} of a rank, and the longest has {}", long_samples_text(table, ways),
      format_count(ways.tokens_per_rank(), "token"), format_count(ways.longest_length(), "token"));
  if (!once.fixed || !meeting.fixed) {
    return fmt::format("No cp that divides the ranks holds all samples, but mesh.cp: flexible does: {}.",
                       lengths);
  }
  constexpr double worth_it = 1.01;
  if (std::max(once.gain(), meeting.gain()) < worth_it) {
    const std::string if_they_meet =
        once.fixed->cp == meeting.fixed->cp
            ? ""
            : fmt::format(", or over cp {} if ranks meet at every micro-batch", meeting.fixed->cp);
    return fmt::format("mesh.cp: flexible gains nothing on these lengths over cp {}{}: {}.", once.fixed->cp,
                       if_they_meet, lengths);
  }
  return fmt::format(
      "With mesh.cp: flexible the step ends {:.2f} times as fast as with cp {}, and {:.2f} times as fast "
      "as with cp {} if ranks meet at every micro-batch: {}, so that a fixed cp cuts the others too, or "
      "leaves ranks waiting.",
      once.gain(), once.fixed->cp, meeting.gain(), meeting.fixed->cp, lengths);
}

}  // namespace

std::optional<ContextComparison> compare_contexts(const LengthTable& table, const PlanSettings& settings) {
  const ContextWays ways(table, settings);
  if (settings.find<ContextGroupSettings>() == nullptr && !ways.groups_fit()) return std::nullopt;
  const BestWays once{ways.plan_best_fixed_cp(false), ways.plan_flexible(false)};
  const BestWays meeting{ways.plan_best_fixed_cp(true), ways.plan_flexible(true)};
  ContextComparison comparison;
  for (const BestWays& best : {once, meeting}) {
    if (best.fixed) comparison.ways.push_back(*best.fixed);
    comparison.ways.push_back(best.flexible);
  }
  comparison.lower_bound = ways.lower_bound();
  comparison.advice = advice_text(table, ways, once, meeting);
  return comparison;
}

std::string context_table(const ContextComparison& comparison) {
  using enum TextTable::Align;
  TextTable table(
      {{"context parallelism"}, {"micro-\nbatches", right}, {"time / bound", right}, {"seconds", right}});
  for (const ComparedContext& way : comparison.ways) {
    table.add({describe_context(way), format_with_commas(way.micro_batches),
               fmt::format("{:.3f}", ratio(way.end, comparison.lower_bound)),
               fmt::format("{:.4f}", way.seconds)});
  }
  return table.to_text() + comparison.advice + "\n";
}

nlohmann::json context_json(const ContextComparison& comparison) {
  nlohmann::json ways = nlohmann::json::array();
  for (const ComparedContext& way : comparison.ways) {
    nlohmann::json& json = ways.emplace_back();
    json = {{"way", describe_context(way)},
            {"cp", way.cp == 0 ? nlohmann::json("flexible") : nlohmann::json(way.cp)},
            {"meet", way.meets ? "micro_batch" : "step"},
            {"num_micro_batches", way.micro_batches},
            {"end", way.end},
            {"lower_bound", comparison.lower_bound},
            {"end_over_bound", ratio(way.end, comparison.lower_bound)},
            {"plan_seconds", way.seconds}};
  }
  return ways;
}

}  // namespace evenkeel::cli
