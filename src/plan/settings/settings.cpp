#include "evenkeel/plan/settings.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "balance/context/levels.hpp"
#include "balance/quality.hpp"
#include "base/text_layout.hpp"
#include "cost/default_communication.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/settings/checks.hpp"
#include "plan/settings/requirements.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {

using plan_checks::require_at_least;
using plan_checks::require_valid_size;

namespace {

void require_valid_speeds(std::span<const std::int64_t> speeds, int dp) {
  if (std::ssize(speeds) != dp) {
    throw ConfigError("balance.speeds",
                      "has " + format_plain_count(std::ssize(speeds), "speed") + " for " +
                          format_plain_count(dp, "DP rank"),
                      "Give one speed for each DP rank");
  }
  for (const std::int64_t speed : speeds) require_valid_size(speed, "balance.speeds");
}

/// Checks conditions that Config::plan_settings() guarantees, because programs may also create settings
/// themselves.
void require_configurable(const PlanSettings& settings) {
  if (settings.balance.encoder && settings.balance.measured)
    throw ConfigError("balance.cost", "must be a fixed model cost if there is an encoder",
                      "Set a fixed model cost, or leave the encoder out");
  if (settings.balance.cost_field && settings.balance.measured)
    throw ConfigError("balance.cost", "cannot be both the cost of a field and a measured cost",
                      "Leave one of them out");
  if (settings.micro_batch.shapes && !settings.micro_batch.max_samples)
    throw ConfigError("micro_batch.shapes", "requires a limit on the number of samples",
                      "Set micro_batch.max_samples");
}

/// Maximum alignment. Cumulative lengths are 32-bit, so a sequence cannot be rounded up beyond this.
constexpr std::int64_t max_alignment = std::numeric_limits<std::int32_t>::max();

/// Throws ConfigError if the settings force too many micro-batches per step. Each micro-batch takes time and
/// memory, even if the step has only a few samples.
void require_bounded_forced_count(const PlanSettings& settings) {
  constexpr std::int64_t most = std::int64_t{1} << 16;
  const std::int64_t of_mini_batch = agreed_count(1, settings);
  const std::int64_t mini_batches = settings.mini_batches.count;
  if (of_mini_batch <= most / mini_batches) return;
  const bool by_multiple = settings.count_multiple() > settings.micro_batch.min_count;
  throw ConfigError(mini_batches > of_mini_batch ? "batch.mini_batches"
                    : by_multiple                ? "micro_batch.multiple_of"
                                                 : "micro_batch.min_count",
                    "requires every DP rank to make " + std::to_string(mini_batches) + " x " +
                        std::to_string(of_mini_batch) +
                        " micro-batches per step, no matter how few samples it has; at most " +
                        std::to_string(most) + " are possible",
                    "Lower batch.mini_batches, micro_batch.min_count or micro_batch.multiple_of");
}

/// Returns the least common multiple of two numbers >= 1. Throws ConfigError about `key` if it is above the
/// maximum alignment.
std::int64_t common_multiple(std::int64_t left, std::int64_t right, const char* key) {
  const std::int64_t factor = left / std::gcd(left, right);
  if (factor <= max_alignment / right) return factor * right;
  throw ConfigError(
      key,
      "the least common multiple of " + std::to_string(left) + " and " + std::to_string(right) +
          ", to which sequences would be aligned, is above " + std::to_string(max_alignment),
      "For pack.align, pack.align_lcm and, if micro-batches are padded, micro_batch.length_round, choose "
      "smaller numbers or numbers with more factors in common");
}

}  // namespace

std::int64_t PlanSettings::alignment(int group_size) const {
  const CpGroup group{group_size, cp.layout};
  require_at_least(1, align_lcm, "pack.align_lcm");
  const std::int64_t rounding =
      common_multiple(align_lcm, strategy_of(*this).length_multiple(*this), "pack.align_lcm");
  if (!align) return sequence_alignment(tp, group, rounding);
  require_at_least(1, *align, "pack.align");
  if (*align % group.chunks() != 0) {
    throw ConfigError("pack.align",
                      "is " + std::to_string(*align) + ", which is not a multiple of " +
                          std::to_string(group.chunks()) +
                          ", the number of chunks into which context parallelism cuts a sequence",
                      "Use a multiple of " + std::to_string(group.chunks()) + ", or auto");
  }
  return common_multiple(*align, rounding, align_lcm > 1 ? "pack.align_lcm" : "pack.align");
}

std::vector<int> ContextGroupSettings::group_sizes() const {
  const std::vector<std::int64_t> all = context::group_sizes_up_to(max_size);
  return {all.begin(), all.end()};
}

int PlanSettings::largest_group() const noexcept {
  const auto* groups = find<ContextGroupSettings>();
  return groups != nullptr ? groups->max_size : cp.size;
}

std::vector<int> PlanSettings::group_sizes() const {
  const auto* groups = find<ContextGroupSettings>();
  return groups != nullptr ? groups->group_sizes() : std::vector<int>{cp.size};
}

BinLimits PlanSettings::limits() const noexcept {
  BinLimits limits;
  limits.max_size = micro_batch.max_tokens;
  if (micro_batch.max_samples) limits.max_items = *micro_batch.max_samples;
  if (const auto* fixed = find<FixedSettings>()) limits.max_items = std::min(limits.max_items, fixed->size);
  return limits;
}

std::span<const std::int64_t> PlanSettings::speeds_of_costs() const noexcept {
  if (find<ContextGroupSettings>() != nullptr) return {};
  return balance.speeds;
}

CommunicationCost PlanSettings::communication_cost() const noexcept {
  using namespace default_communication;
  constexpr std::int64_t devices = 8;
  const CommunicationSettings& chosen = balance.communication;
  const auto part_of_token = [&](Cost part) {
    return balance.cost.linear / token * part + balance.cost.linear % token * part / token;
  };
  CommunicationCost cost;
  cost.inside_node = chosen.inside_node.value_or(part_of_token(inside_node));
  cost.between_nodes = chosen.between_nodes.value_or(part_of_token(between_nodes));
  cost.ranks_per_node = chosen.ranks_per_node.value_or(std::max<std::int64_t>(1, devices / tp));
  cost.overlap = chosen.overlap;
  cost.overhead = balance.overhead.value_or(default_overhead(balance.cost));
  return cost;
}

std::int64_t PlanSettings::count_multiple() const noexcept {
  return micro_batch.multiple_of.value_or(vpp > 1 ? pp : 1);
}

std::int64_t PlanSettings::speed_of(DpRank rank, ContextGroup context) const {
  constexpr std::int64_t nominal = 1000;
  if (balance.speeds.empty()) return nominal;
  if (!speeds_of_costs().empty()) return balance.speeds[rank.index()];
  const auto size = static_cast<std::size_t>(context.size);
  return std::ranges::min(std::span(balance.speeds).subspan(context.first.index(), size));
}

Cost PlanSettings::time_of(Cost cost, std::int64_t rank) const {
  if (speeds_of_costs().empty()) return cost;
  const std::int64_t slowest = std::ranges::min(balance.speeds);
  EVENKEEL_PRECONDITION(cheap, 0 <= rank && rank < std::ssize(balance.speeds), rank, balance.speeds.size());
  EVENKEEL_PRECONDITION(cheap, slowest >= 1, slowest);
  const std::int64_t speed = balance.speeds[static_cast<std::size_t>(rank)];
  return cost / speed * slowest + cost % speed * slowest / speed;
}

void PlanSettings::validate() const {
  require_at_least(1, dp, "mesh.dp");
  require_at_least(1, tp, "mesh.tp");
  require_at_least(1, cp.size, "mesh.cp");
  require_at_least(1, pp, "mesh.pp");
  require_at_least(1, vpp, "mesh.vpp");
  require_valid_size(align_lcm, "pack.align_lcm");
  require_valid_size(micro_batch.max_tokens, "micro_batch.max_tokens");
  require_valid_size(micro_batch.max_samples.value_or(1), "micro_batch.max_samples");
  require_valid_size(micro_batch.min_count, "micro_batch.min_count");
  require_valid_size(count_multiple(), "micro_batch.multiple_of");
  require_valid_size(mini_batches.count, "batch.mini_batches");
  require_valid_size(max_path_tokens.value_or(1), "prefix.max_path_tokens");
  require_valid_size(max_kept_tokens.value_or(1), "prefix.max_kept_tokens");
  require_bounded_forced_count(*this);
  if (!balance.speeds.empty()) require_valid_speeds(balance.speeds, dp);
  if (balance.measured) {
    require_at_least(1, balance.measured->every, "balance.cost: measured: every");
    require_at_least(1, balance.measured->window, "balance.cost: measured: window");
  }
  for (const auto& [field, rows] : micro_batch.max_rows)
    require_at_least(1, rows, "micro_batch.max_rows: " + field);
  if (micro_batch.shapes) require_valid_size(*micro_batch.shapes, "micro_batch.shapes");
  require_compatible(choices_of(*this));
  const PlanningStrategy& planning = strategy_of(*this);
  planning.require_valid(*this);
  require_configurable(*this);
  if (max_kept_tokens && *max_kept_tokens < alignment())
    throw ConfigError(
        "prefix.max_kept_tokens",
        "is " + std::to_string(*max_kept_tokens) + ", but segments are aligned to " +
            format_plain_count(alignment(), "token"),
        "Raise it to at least that, or lower the alignment (pack.align or, if that is auto, mesh.tp; "
        "pack.align_lcm)");
  for (const int group : {cp.size, largest_group()}) {
    if (cap(group) >= alignment(group)) continue;
    const bool is_flexible = planning.has_flexible_groups();
    throw ConfigError(
        is_flexible ? "micro_batch.max_tokens_per_rank" : "micro_batch.max_tokens",
        "the cap of " + format_plain_count(cap(group), "token") +
            " is below the alignment of one sequence, " + format_plain_count(alignment(group), "token") +
            (is_flexible ? ", in a CP group of " + format_plain_count(group, "rank") : ""),
        !is_flexible ? "Raise it (or micro_batch.max_tokens_per_rank, if that is set), or lower pack.align "
                       "(if it is auto, lower mesh.tp or mesh.cp), pack.align_lcm or, if micro-batches are "
                       "padded, micro_batch.length_round"
        : group > 1  ? "Raise it, or lower mesh.tp, mesh.max_cp or pack.align_lcm"
                     : "Raise it, or lower mesh.tp or pack.align_lcm");
  }
}

}  // namespace evenkeel
