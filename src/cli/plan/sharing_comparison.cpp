#include "cli/plan/sharing_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/text_layout.hpp"
#include "cli/plan/plan_comparison.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/prefix/tree_split.hpp"
#include "page/pass_figures.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel::cli {
namespace {

/// A method of sharing prefixes and running the shared segments.
struct SharingWay {
  const char* name;
  PrefixSharing sharing;
  SegmentSchedule schedule = SegmentSchedule::packed;
};

PlanSettings settings_for(const PlanSettings& given, const SharingWay& way) {
  PlanSettings settings = given;
  settings.balance.cost = comparison_cost_model(given);
  settings.sharing = way.sharing;
  settings.schedule = way.schedule;
  // Without sharing, a path is a sample, and samples are limited by the cap of a micro-batch.
  if (way.sharing == PrefixSharing::none) settings.max_path_tokens = std::nullopt;
  if (way.schedule == SegmentSchedule::packed) settings.max_kept_tokens = std::nullopt;
  return settings;
}

/// Returns the work of these groups if every token is computed only once.
Cost work_of(const CostModel& cost, const std::vector<SharedGroup>& groups) {
  return std::accumulate(groups.begin(), groups.end(), Cost{0},
                         [&](Cost sum, const SharedGroup& g) { return sum + cost_of_tree(cost, g.tree); });
}

/// Returns a lower bound on the work of packed micro-batches within the cap, for any way of splitting groups.
/// Precondition: every sample fits under the cap.
Cost min_work_under_cap(const CostModel& cost, const std::vector<SharedGroup>& groups, std::int64_t cap) {
  Cost work = 0;
  for (const SharedGroup& group : groups) {
    const std::vector<std::int64_t> parts = min_parts_per_segment(group.tree, cap);
    for (std::int64_t s = 0; s < group.tree.size(); ++s) {
      const RowRange source = group.tree.segment(s).source();
      work += parts[static_cast<std::size_t>(s)] * (cost(source.end) - cost(source.begin));
    }
  }
  return work;
}

/// Returns the time that this work takes if it is divided among all DP ranks in proportion to their speeds.
/// The time is in the units of end_time_without_bubbles().
double even_time(Cost work, const PlanSettings& settings) {
  const std::vector<std::int64_t>& speeds = settings.balance.speeds;
  if (speeds.empty()) return static_cast<double>(work) / settings.dp;
  const auto [slowest, fastest] = std::ranges::minmax(speeds);
  const auto all = static_cast<double>(std::accumulate(speeds.begin(), speeds.end(), std::int64_t{0}));
  // If costs are already times, their unit is the time that the fastest rank takes for one unit of work.
  const std::int64_t unit = settings.speeds_of_costs().empty() ? fastest : slowest;
  return static_cast<double>(work) * static_cast<double>(unit) / all;
}

void set_meeting(PlanSettings& settings, SyncPoint meet) {
  settings.balance.meet = meet;
  const auto* groups = settings.find<ContextGroupSettings>();
  if (groups != nullptr && meet == SyncPoint::step) {
    settings.strategy = ContextTreeSettings{*groups};
  } else if (groups != nullptr) {
    settings.strategy = ContextWavesSettings{*groups};
  }
}

/// Returns the rows of the largest micro-batch as counted by the cap: per context-parallel group, or per rank
/// if groups have different sizes.
std::int64_t max_micro_batch_tokens(const StepPlan& plan, const PlanSettings& settings) {
  std::int64_t largest = 0;
  for (const DpRankPlan& rank : plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) {
      const std::int64_t groups = std::max(1, m.context.size / settings.cp.size);
      largest = std::max(largest, (m.aligned_tokens + groups - 1) / groups);
    }
  }
  return largest;
}

void set_token_counts(ComparedSharing& way, const PackUnits& units) {
  way.repeated = units.repeated();
  if (units.has_shared_prefixes()) {
    const SharingSavings savings = savings_of(units);
    way.tokens = savings.tokens;
    way.score_entries = savings.score_entries;
    return;
  }
  for (const std::int64_t length : units.rows()) {
    way.tokens += length;
    way.score_entries += length * (length + 1) / 2;
  }
}

/// Returns the work of the forward pass over the pieces that a schedule recomputes.
Cost recomputed_work(const DepthFirstSchedule& schedule, const CostModel& cost) {
  constexpr Cost of_both_passes = 3;  // a backward pass takes as long as two forward passes
  Cost again = 0;
  for (const TreeStep& step : schedule.steps) {
    if (step.kind != TreeStep::Kind::push) continue;
    const auto piece = static_cast<std::size_t>(step.piece);
    const std::int64_t keys = schedule.keys_before[piece];
    again += cost(keys + schedule.rows[piece].size()) - cost(keys);
  }
  return again / of_both_passes;
}

/// Adds the work that depth-first micro-batches recompute to their costs in the plan. Records in `way` the
/// rows that their schedules keep and recompute. Returns the added work.
Cost add_recomputed_work(AssignedPlan& planned, const StepProblem& problem, ComparedSharing& way) {
  Cost more = 0;
  for (DpRankPlan& rank : planned.plan.ranks) {
    for (MicroBatchPlan& m : rank.micro_batches) {
      if (m.empty()) continue;
      const PackedMicroBatch laid_out = lay_out(problem, planned.assignment, m, CpRank{0});
      const DepthFirstSchedule& schedule = *laid_out.shared->schedule;
      const Cost again = recomputed_work(schedule, problem.settings.balance.cost);
      m.cost += again;
      more += again;
      way.recomputed += schedule.recomputed;
      way.held = std::max(way.held, schedule.peak_kept * problem.settings.cp.size);
    }
  }
  way.tokens += way.recomputed;
  return more;
}

double ratio_to_bound(double amount, double bound) {
  return bound > 0 ? amount / bound : 1;
}

/// Plans with one method of sharing, for ranks that synchronize as specified by `meet`.
ComparedSharing plan_sharing(const PlanInput& input, PlanSettings settings, const SharingWay& of, Cost once,
                             SyncPoint meet) {
  set_meeting(settings, meet);
  ComparedSharing way;
  way.name = of.name;
  way.sharing = of.sharing;
  way.schedule = of.schedule;
  const StepProblem problem{input.table, settings, 0, input.trees};
  const auto start = std::chrono::steady_clock::now();
  AssignedPlan planned = assign_and_plan(problem);
  const PackUnits& units = planned.assignment.units;
  set_token_counts(way, units);
  Cost work = std::accumulate(units.costs().begin(), units.costs().end(), Cost{0});
  if (of.schedule == SegmentSchedule::depth_first) {
    work += add_recomputed_work(planned, problem, way);
  } else {
    way.held = max_micro_batch_tokens(planned.plan, settings);
  }
  way.micro_batches = planned.plan.num_micro_batches();
  way.work = ratio_to_bound(static_cast<double>(work), static_cast<double>(once));
  std::optional<double>& end = meet == SyncPoint::step ? way.end_once : way.end_meeting;
  end = ratio_to_bound(static_cast<double>(end_time_without_bubbles(planned.plan, settings)),
                       even_time(once, settings));
  way.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return way;
}

bool has_same_computation(const ComparedSharing& a, const ComparedSharing& b) {
  return a.tokens == b.tokens && a.score_entries == b.score_entries && a.repeated == b.repeated &&
         a.work == b.work;
}

/// Adds one method of sharing: one line for both values of `meet` or, if their plans compute different
/// tokens, one line for each value.
void add_packed_plans(std::vector<ComparedSharing>& ways, ComparedSharing once, ComparedSharing meeting) {
  if (has_same_computation(once, meeting)) {
    once.end_meeting = meeting.end_meeting;
    once.held = std::max(once.held, meeting.held);
    once.micro_batches = std::max(once.micro_batches, meeting.micro_batches);
    once.seconds += meeting.seconds;
    ways.push_back(std::move(once));
    return;
  }
  once.name += ", once";
  meeting.name += ", at each";
  ways.push_back(std::move(once));
  ways.push_back(std::move(meeting));
}

/// Returns whether a run could use these settings.
bool is_possible(const PlanSettings& settings) {
  try {
    settings.validate();
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

const char* sharing_word(PrefixSharing sharing) {
  switch (sharing) {
    case PrefixSharing::none:
      return "false";
    case PrefixSharing::prompts:
      return "true";
    case PrefixSharing::trees:
      break;
  }
  return "tree";
}

}  // namespace

std::vector<ComparedSharing> compare_sharing(const PlanInput& input, const PlanSettings& settings) {
  if (settings.sharing == PrefixSharing::none) return {};
  const bool has_trees = !input.trees.empty();
  const std::vector<SharedGroup> groups = has_trees ? input.trees : prompt_groups(input.table);
  const CostModel cost = comparison_cost_model(settings);
  const Cost once = work_of(cost, groups);
  std::vector<SharingWay> wanted{{"paths one by one", PrefixSharing::none},
                                 {"prompts shared", PrefixSharing::prompts}};
  if (has_trees) {
    wanted.push_back({"trees packed", PrefixSharing::trees});
    wanted.push_back({"trees depth first", PrefixSharing::trees, SegmentSchedule::depth_first});
  }
  std::vector<ComparedSharing> ways;
  for (const SharingWay& way : wanted) {
    PlanSettings of_way = settings_for(settings, way);
    set_meeting(of_way, SyncPoint::step);
    if (way.schedule == SegmentSchedule::packed) {
      add_packed_plans(ways, plan_sharing(input, of_way, way, once, SyncPoint::step),
                       plan_sharing(input, of_way, way, once, SyncPoint::micro_batch));
    } else if (is_possible(of_way)) {
      ways.push_back(plan_sharing(input, of_way, way, once, SyncPoint::step));
    }
  }
  // Planning has already rejected samples above the cap.
  const Cost least = min_work_under_cap(cost, groups, settings.cap(settings.largest_group()));
  for (ComparedSharing& way : ways) {
    if (way.schedule == SegmentSchedule::packed)
      way.least_work = ratio_to_bound(static_cast<double>(least), static_cast<double>(once));
  }
  return ways;
}

std::string sharing_table(const std::vector<ComparedSharing>& ways) {
  using enum TextTable::Align;
  TextTable table({{"shared prefixes"},
                   {"tokens", right},
                   {"computed\nmore than once", right},
                   {"attention\nscores", right},
                   {"held\nat once", right},
                   {"work / bound", right},
                   {"time / bound,\nonce", right},
                   {"time / bound,\nat each", right}});
  const auto ratio = [](const std::optional<double>& end) { return end ? fmt::format("{:.3f}", *end) : "-"; };
  for (const ComparedSharing& way : ways) {
    table.add({way.name, format_with_commas(way.tokens),
               format_with_commas(sum_of(way.repeated) + way.recomputed),
               format_with_commas(way.score_entries), format_with_commas(way.held),
               fmt::format("{:.3f}", way.work), ratio(way.end_once), ratio(way.end_meeting)});
  }
  const bool has_trees = ways.back().sharing == PrefixSharing::trees;
  std::string bound = fmt::format(
      "bound: every token of what {} share is computed once, evenly on all DP ranks, "
      "which meet once a step or at each micro-batch",
      has_trees ? "samples" : "prompts");
  constexpr double shown = 1.0005;
  if (const auto& least = ways.front().least_work; least && *least >= shown)
    bound += fmt::format(
        "; the cap makes parts repeat tokens: work / bound is {:.3f} or more, however they are split",
        *least);
  return table.to_text() + bound + "\n";
}

nlohmann::json sharing_ways_json(const std::vector<ComparedSharing>& ways) {
  nlohmann::json array = nlohmann::json::array();
  const auto json_of = [](const std::optional<double>& ratio) {
    return ratio ? nlohmann::json(*ratio) : nlohmann::json();
  };
  for (const ComparedSharing& way : ways) {
    array.push_back({{"way", way.name},
                     {"share", sharing_word(way.sharing)},
                     {"tokens", way.tokens},
                     {"score_entries", way.score_entries},
                     {"repeated_by_reason", repeated_json(way.repeated)},
                     {"recomputed", way.recomputed},
                     {"held_at_once", way.held},
                     {"num_micro_batches", way.micro_batches},
                     {"work_over_bound", way.work},
                     {"least_work_over_bound", json_of(way.least_work)},
                     {"end_over_bound_once", json_of(way.end_once)},
                     {"end_over_bound_every_micro_batch", json_of(way.end_meeting)},
                     {"plan_seconds", way.seconds}});
  }
  return array;
}

}  // namespace evenkeel::cli
