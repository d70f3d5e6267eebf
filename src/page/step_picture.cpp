#include "page/step_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/strategies/automatic.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

std::string describe_cost(const CostModel& cost) {
  std::string text =
      cost.linear == 1 && cost.quadratic == 0 ? "tokens" : format_with_commas(cost.linear) + " * length";
  if (cost.quadratic != 0)
    text += " + " + (cost.quadratic == 1 ? "" : format_with_commas(cost.quadratic) + " * ") + "length^2";
  if (cost.quadratic != 0 && cost.window > 0) text += fmt::format(", window {}", cost.window);
  return text;
}

void add_source_order(StepPicture& picture, const LengthTable& table, PlanSettings settings) {
  const std::vector<Cost> costs = unbalanced_dp_costs(table, settings);
  settings.balance.cost = CostModel::tokens();
  settings.balance.cost_field.reset();
  const std::vector<Cost> tokens = unbalanced_dp_costs(table, settings);
  for (std::size_t r = 0; r < picture.dp_ranks.size(); ++r) {
    picture.dp_ranks[r].cost_before = costs[r];
    picture.dp_ranks[r].tokens_before = tokens[r];
    if (!settings.speeds_of_costs().empty()) picture.dp_ranks[r].speed = settings.balance.speeds[r];
  }
}

}  // namespace

std::int64_t DpRankPicture::sum(std::int64_t MicroBatchPicture::*figure) const noexcept {
  std::int64_t sum = 0;
  for (const MicroBatchPicture& m : micro_batches) sum += m.*figure;
  return sum;
}

LinkPicture LinkPicture::for_ranks(int ranks) {
  LinkPicture links;
  links.ranks = ranks;
  links.ranks_per_line = std::max(1, (ranks + max_lines - 1) / max_lines);
  links.bytes.resize(static_cast<std::size_t>(links.num_lines()) *
                     static_cast<std::size_t>(links.num_lines()));
  return links;
}

LinkPicture& LinkPicture::operator+=(const LinkPicture& other) {
  if (bytes.empty()) return *this = other;
  EVENKEEL_PRECONDITION(cheap, bytes.size() == other.bytes.size(), bytes.size(), other.bytes.size());
  std::ranges::transform(bytes, other.bytes, bytes.begin(), std::plus());
  return *this;
}

MicroBatchPicture picture_of(const LengthTable& table, const MicroBatchPlan& plan,
                             const PlanSettings& settings, DpRank rank) {
  // If CP groups may differ in size, each rank of the micro-batch's group runs one part of it. Otherwise,
  // this DP rank runs the whole micro-batch.
  const bool has_flexible_groups = strategy_of(settings).has_flexible_groups();
  const std::int64_t parts = has_flexible_groups ? plan.context.size : 1;
  const std::int64_t part = has_flexible_groups ? rank.value() - plan.context.first.value() : 0;
  MicroBatchPicture picture;
  picture.first_rank = rank.value() - part;
  picture.ranks = parts;
  picture.samples = std::ssize(plan.entries);
  picture.tokens = plan.tokens * (part + 1) / parts - plan.tokens * part / parts;
  picture.rows = plan.aligned_tokens / parts;
  picture.cost = plan.cost;
  picture.mini_batch = plan.mini_batch.value();
  for (const EntryId entry : plan.entries)
    picture.longest = std::max<std::int64_t>(picture.longest, table[entry].shape.length());
  return picture;
}

PlanningPicture picture_of(const PlanSettings& settings) {
  const PlanningStrategy& strategy = strategy_of(settings);
  PlanningPicture picture;
  picture.cap = settings.micro_batch.max_tokens;
  picture.alignment = settings.alignment();
  const auto* assignment = settings.find<AssignmentSettings>();
  picture.in_source_order = assignment != nullptr && assignment->algorithm == BalanceAlgorithm::none;
  picture.preset = strategy.reproduced_system(settings);
  picture.equal_count = assignment != nullptr && assignment->equal_count;
  picture.pads_micro_batches = strategy.pads_micro_batches();
  picture.has_fixed_micro_batches = strategy.has_fixed_micro_batches();
  picture.shares_prefixes = settings.sharing != PrefixSharing::none;
  const auto* packed = settings.find<PackedSettings>();
  picture.may_require_more = (packed != nullptr && packed->count == CountRule::fastest) ||
                             settings.micro_batch.min_count > 1 || settings.count_multiple() > 1;
  picture.could_use_grid = skips_compatible_grid(settings);
  picture.cost = settings.balance.cost_field ? "field " + *settings.balance.cost_field
                                             : describe_cost(settings.balance.cost);
  return picture;
}

std::int64_t padded_rows(const LengthTable& table, std::int64_t alignment) {
  std::int64_t longest = 0;
  for (const LengthEntry& entry : table.entries())
    longest = std::max(longest, align_up(entry.shape.length(), alignment));
  return longest * table.size();
}

void add_to_figures(PassFigures& figures, const std::vector<MicroBatchPicture>& of_rank, std::int64_t cap) {
  figures.micro_batches = std::max(figures.micro_batches, std::ssize(of_rank));
  for (const MicroBatchPicture& m : of_rank) {
    figures.rows += m.rows;
    figures.filled += m.tokens;
    figures.widest = std::max(figures.widest, m.rows);
    if (m.rows == 0) ++figures.empty;
    if (m.rows > cap) ++figures.above_cap;
  }
}

void add_common_figures(StepPicture& picture, const LengthTable& table, const PlanSettings& settings) {
  EVENKEEL_PRECONDITION(cheap, std::ssize(picture.dp_ranks) == settings.dp, picture.dp_ranks.size(),
                        settings.dp);
  picture.planning = picture_of(settings);
  picture.lengths = table.sample_lengths();
  add_source_order(picture, table, settings);
  if (settings.sharing != PrefixSharing::none || table.size() == 0) return;
  picture.costliest_sample = std::ranges::max(costs_of(table, settings));
}

StepPicture picture_of(const StepProblem& problem, const StepPlan& plan, const RepeatedTokens& repeated) {
  const LengthTable& table = problem.table;
  const PlanSettings& settings = problem.settings;
  StepPicture picture;
  picture.samples = table.size();
  picture.tokens = table.num_tokens();
  add_loss_counts(table, picture);
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    picture.lower_bound = std::max(picture.lower_bound, plan.ranks[r].lower_bound);
    DpRankPicture& of_rank = picture.dp_ranks.emplace_back();
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches)
      of_rank.micro_batches.push_back(picture_of(table, m, settings, DpRank{static_cast<int>(r)}));
    add_to_figures(picture, of_rank.micro_batches, settings.micro_batch.max_tokens);
  }
  picture.padded_rows = padded_rows(table, settings.alignment());
  if (settings.sharing != PrefixSharing::none) {
    picture.repeated = repeated;
    for (const LengthEntry& entry : table.entries())
      picture.unshared_rows += align_up(entry.shape.length(), settings.alignment());
  }
  add_common_figures(picture, table, settings);
  picture.max_over_mean_before = max_over_mean(unbalanced_dp_costs(table, settings), settings.balance.speeds);
  picture.balance = step_balance(plan, settings.speeds_of_costs());
  return picture;
}

}  // namespace evenkeel
