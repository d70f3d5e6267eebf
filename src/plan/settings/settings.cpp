#include "evenkeel/plan/settings.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>

#include "balance/bins/choose_count.hpp"
#include "base/text_layout.hpp"
#include "cost/default_communication.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel {

using plan_checks::require_at_least;

namespace {

/// Sizes and counts as far as they can go: what is summed up or rounded up from them then fits 64 bits, and
/// cumulative lengths 32.
void require_size(std::int64_t value, std::string_view key) {
  require_at_least(1, value, key);
  plan_checks::require_at_most(std::numeric_limits<std::int32_t>::max(), value, key);
}

/// A grid assigns and packs at once, so that nothing that rules the one or the other alone fits it.
void require_fits_grid(const PlanSettings& settings) {
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("balance.strategy", "grid needs " + needed,
                      "Set " + key + ", or strategy: hierarchical");
  };
  const BalanceSettings& balance = settings.balance;
  if (settings.micro_batch.mode != MicroBatchMode::packed)
    refuse("packed micro-batches", "micro_batch.mode: packed");
  if (balance.preset != Preset::none) refuse("Evenkeel's own planning", "balance.preset: none");
  if (balance.algorithm != BalanceAlgorithm::automatic)
    refuse("its own algorithm", "balance.algorithm: auto");
  if (balance.equal_count) refuse("free numbers of samples", "balance.equal_count: false");
  if (!settings.mini_batches.keep && settings.mini_batches.count > 1)
    refuse("mini-batches that are cut first", "batch.keep_mini_batch: true");
}

/// Only assigning by work alone can take speeds into account.
void require_speeds_fit(const PlanSettings& settings) {
  const BalanceSettings& balance = settings.balance;
  if (std::ssize(balance.speeds) != settings.dp) {
    throw ConfigError(
        "balance.speeds",
        "has " + number_of(std::ssize(balance.speeds), "speed") + " for " + number_of(settings.dp, "DP rank"),
        "Give one speed a DP rank");
  }
  for (const std::int64_t speed : balance.speeds) require_size(speed, "balance.speeds");
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("balance.speeds", "need " + needed, "Set " + key + ", or leave speeds out");
  };
  if (balance.strategy == Strategy::grid && !settings.flexible)
    refuse("samples that are assigned before they are packed", "balance.strategy: hierarchical");
  if (balance.preset != Preset::none) refuse("Evenkeel's own planning", "balance.preset: none");
  if (balance.algorithm != BalanceAlgorithm::automatic)
    refuse("their own algorithm", "balance.algorithm: auto");
  if (!balance.refine) refuse("refinement", "balance.refine: true");
  if (balance.equal_count) refuse("free numbers of samples", "balance.equal_count: false");
  if (settings.micro_batch.mode == MicroBatchMode::padded)
    refuse("micro-batches whose lengths are not shared", "micro_batch.mode: packed");
}

/// Ways of packing that Evenkeel's own packed micro-batches have, DP rank by DP rank.
void require_packing_fits(const PlanSettings& settings, const std::string& key) {
  const bool own = settings.micro_batch.mode == MicroBatchMode::packed &&
                   settings.balance.preset == Preset::none &&
                   settings.balance.strategy == Strategy::hierarchical;
  if (own) return;
  throw ConfigError(key, "is for packed micro-batches, assigned before they are packed, without a preset",
                    "Leave it out, or set micro_batch.mode: packed, balance.strategy: hierarchical and "
                    "balance.preset: none");
}

void require_packing_and_count_fit(const PlanSettings& settings) {
  const MicroBatchSettings& micro_batch = settings.micro_batch;
  if (micro_batch.packing) require_packing_fits(settings, "micro_batch.packing");
  if (micro_batch.count == CountRule::fewest) return;
  require_packing_fits(settings, "micro_batch.count");
  if (!micro_batch.packing) return;
  throw ConfigError("micro_batch.count",
                    "fastest balances at every count it tries, which packing by name does not",
                    "Set micro_batch.packing: auto, or micro_batch.count: fewest");
}

/// Samples may go from one DP rank to another only where nothing but work and count decided.
void require_tolerance_fits(const PlanSettings& settings) {
  const BalanceSettings& balance = settings.balance;
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("balance.placement_tolerance", "above 0 needs " + needed,
                      "Set " + key + ", or placement_tolerance: 0");
  };
  if (balance.placement != PlacementRule::locality) refuse("placement", "balance.placement: locality");
  if (balance.strategy == Strategy::grid)
    refuse("samples that are assigned before they are packed", "balance.strategy: hierarchical");
  if (balance.preset != Preset::none) refuse("Evenkeel's own planning", "balance.preset: none");
  if (balance.algorithm == BalanceAlgorithm::sorted_stride || balance.algorithm == BalanceAlgorithm::none)
    refuse("samples that are assigned by work", "balance.algorithm: auto");
  if (settings.micro_batch.mode == MicroBatchMode::padded)
    refuse("micro-batches whose lengths are not shared", "micro_batch.mode: packed");
  if (!settings.mini_batches.keep && settings.mini_batches.count > 1)
    refuse("mini-batches that are cut first", "batch.keep_mini_batch: true");
}

/// Sequences that share tokens have no lengths of their own that could be padded, or that other systems plan
/// by.
void require_sharing_fits(const PlanSettings& settings) {
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("prefix.share", "needs " + needed, "Set " + key + ", or prefix.share: false");
  };
  if (settings.micro_batch.mode == MicroBatchMode::padded)
    refuse("micro-batches that are not padded, since shared tokens stand in several samples",
           "micro_batch.mode: packed or fixed");
  if (settings.balance.preset != Preset::none)
    refuse("Evenkeel's own planning, since presets plan every sample alone", "balance.preset: none");
}

void require_measurable(const PlanSettings& settings) {
  const MeasuredCost& measured = *settings.balance.measured;
  require_at_least(1, measured.every, "balance.cost: measured: every");
  require_at_least(1, measured.window, "balance.cost: measured: window");
  if (settings.balance.preset == Preset::none) return;
  throw ConfigError("balance.cost", "measured needs Evenkeel's own planning: presets have costs of their own",
                    "Set balance.preset: none, or another cost");
}

/// Two kinds of work are evened out by exchanges that know nothing else, and the encoder's is done before
/// micro-batches are begun.
void require_encoder_fits(const PlanSettings& settings) {
  const BalanceSettings& balance = settings.balance;
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("balance.cost", "with an encoder needs " + needed,
                      "Set " + key + ", or leave encoder out");
  };
  if (balance.strategy == Strategy::grid)
    refuse("samples that are assigned before they are packed", "balance.strategy: hierarchical");
  if (settings.flexible) refuse("DP ranks that encode for themselves", "mesh.cp to a number");
  if (balance.preset != Preset::none) refuse("Evenkeel's own planning", "balance.preset: none");
  if (balance.algorithm != BalanceAlgorithm::automatic)
    refuse("its own algorithm", "balance.algorithm: auto");
  if (!balance.refine) refuse("refinement, which is a part of it", "balance.refine: true");
  if (balance.equal_count) refuse("free numbers of samples", "balance.equal_count: false");
  if (!balance.speeds.empty()) refuse("ranks that are alike", "balance.speeds: []");
  if (balance.placement_tolerance > 0)
    refuse("samples that stay where they are assigned", "balance.placement_tolerance: 0");
  if (balance.measured) refuse("a model's cost that stays as it is", "another cost of the model");
  if (settings.micro_batch.mode == MicroBatchMode::padded)
    refuse("micro-batches whose lengths are not shared", "micro_batch.mode: packed");
}

void require_order_fits(const PlanSettings& settings) {
  if (settings.micro_batch.order != MicroBatchOrder::schedule) return;
  if (settings.balance.preset == Preset::none) return;
  throw ConfigError("micro_batch.order",
                    "schedule needs Evenkeel's own planning: presets have orders of their own",
                    "Set balance.preset: none, or another order");
}

/// Every micro-batch must fit into one shape, which padding behind its samples makes up.
void require_shapes_fit(const PlanSettings& settings) {
  const MicroBatchSettings& micro_batch = settings.micro_batch;
  require_size(*micro_batch.shapes, "micro_batch.shapes");
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("micro_batch.shapes", "needs " + needed,
                      "Set " + key + ", or micro_batch.shapes: null");
  };
  if (micro_batch.mode == MicroBatchMode::padded)
    refuse("sequences back to back, since padded ones have a shape of their own",
           "micro_batch.mode: packed or fixed");
  if (settings.balance.preset != Preset::none)
    refuse("Evenkeel's own planning, since presets do not keep the cap", "balance.preset: none");
  if (settings.sharing != PrefixSharing::none)
    refuse("samples that stand alone, since nothing says how many segments shared prefixes come to",
           "prefix.share: false");
  if (settings.flexible)
    refuse("groups of one size, since what a rank computes depends on the size of its group",
           "mesh.cp to a number");
  if (!micro_batch.max_samples)
    refuse("a limit on samples, which Config::plan_settings() works out", "micro_batch.max_samples");
}

/// Cumulative lengths are 32-bit, so that no sequence can be rounded up to more.
constexpr std::int64_t most_alignment = std::numeric_limits<std::int32_t>::max();

/// Groups of their own sizes are assigned, packed and laid out at once.
void require_flexible_fits(const PlanSettings& settings) {
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("mesh.cp", "flexible needs " + needed, "Set " + key + ", or mesh.cp to a number");
  };
  const BalanceSettings& balance = settings.balance;
  const MicroBatchSettings& micro_batch = settings.micro_batch;
  require_at_least(1, settings.flexible->max_size, "mesh.max_cp");
  plan_checks::require_at_most(settings.dp, settings.flexible->max_size, "mesh.max_cp");
  if (micro_batch.mode != MicroBatchMode::packed) refuse("packed micro-batches", "micro_batch.mode: packed");
  if (balance.preset != Preset::none) refuse("Evenkeel's own planning", "balance.preset: none");
  if (balance.algorithm != BalanceAlgorithm::automatic)
    refuse("its own algorithm", "balance.algorithm: auto");
  if (balance.equal_count) refuse("free numbers of samples", "balance.equal_count: false");
  if (!balance.refine) refuse("refinement, which is a part of it", "balance.refine: true");
  if (settings.cp.size != 1) refuse("DP ranks of one place", "the size of cp to 1");
  if (!settings.mini_batches.keep && settings.mini_batches.count > 1)
    refuse("mini-batches that are cut first", "batch.keep_mini_batch: true");
  if (balance.placement_tolerance > 0)
    refuse("samples that stay where they are assigned", "balance.placement_tolerance: 0");
  if (micro_batch.packing) refuse("its own packing", "micro_batch.packing: auto");
  if (micro_batch.count == CountRule::fastest) refuse("its own counts", "micro_batch.count: fewest");
  if (settings.align) refuse("an alignment that depends on the group", "pack.align: auto");
  if (balance.strategy == Strategy::grid) return;
  if (settings.pp > 1)
    refuse("groups that meet at every micro-batch, as the stages of a pipeline do", "balance.strategy: grid");
  if (micro_batch.min_count > 1 || settings.count_multiple() > 1) {
    refuse("micro-batches that each rank has any number of, unless ranks meet at every one",
           "micro_batch.min_count: 1 and multiple_of: auto, or balance.strategy: grid");
  }
}

/// So many micro-batches are made of any step, however few samples it has: each takes time and memory.
void require_few_forced(const PlanSettings& settings) {
  constexpr std::int64_t most = std::int64_t{1} << 16;
  const std::int64_t of_mini_batch = agreed_count(1, settings);
  const std::int64_t mini_batches = settings.mini_batches.count;
  if (of_mini_batch <= most / mini_batches) return;
  const bool by_multiple = settings.count_multiple() > settings.micro_batch.min_count;
  throw ConfigError(mini_batches > of_mini_batch ? "batch.mini_batches"
                    : by_multiple                ? "micro_batch.multiple_of"
                                                 : "micro_batch.min_count",
                    "asks every DP rank for " + grouped(mini_batches) + " x " + grouped(of_mini_batch) +
                        " micro-batches a step, however few samples it has; at most " + grouped(most) +
                        " can be asked for",
                    "Lower batch.mini_batches, micro_batch.min_count or micro_batch.multiple_of");
}

/// Least common multiple of two numbers that are at least 1.
std::int64_t common_multiple(std::int64_t left, std::int64_t right) {
  const std::int64_t factor = left / std::gcd(left, right);
  if (factor <= most_alignment / right) return factor * right;
  throw ConfigError(
      "pack.align_lcm",
      "the least common multiple of " + std::to_string(left) + " and " + std::to_string(right) +
          ", to which sequences would be aligned, is above " + std::to_string(most_alignment),
      "Choose pack.align, pack.align_lcm and, for padded micro-batches, micro_batch.length_round "
      "with more factors in common");
}

}  // namespace

std::int64_t PlanSettings::alignment(int group_size) const {
  const CpGroup group{group_size, cp.layout};
  require_at_least(1, align_lcm, "pack.align_lcm");
  const bool padded = micro_batch.mode == MicroBatchMode::padded;
  const std::int64_t rounding =
      common_multiple(align_lcm, padded ? std::max<std::int64_t>(1, micro_batch.length_round) : 1);
  if (!align) return sequence_alignment(tp, group, rounding);
  if (*align < 1 || *align % group.chunks() != 0) {
    throw ConfigError("pack.align",
                      std::to_string(*align) + " does not fit the context-parallel cut into " +
                          std::to_string(group.chunks()) + " chunks",
                      "Use a multiple of " + std::to_string(group.chunks()) + ", or auto");
  }
  return common_multiple(*align, rounding);
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
  if (!flexible) return balance.speeds[rank.index()];
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
  require_size(align_lcm, "pack.align_lcm");
  require_size(micro_batch.max_tokens, "micro_batch.max_tokens");
  require_size(micro_batch.max_samples.value_or(1), "micro_batch.max_samples");
  require_size(micro_batch.min_count, "micro_batch.min_count");
  require_size(count_multiple(), "micro_batch.multiple_of");
  require_size(micro_batch.size, "micro_batch.size");
  require_size(micro_batch.length_round, "micro_batch.length_round");
  require_size(mini_batches.count, "batch.mini_batches");
  require_few_forced(*this);
  if (balance.strategy == Strategy::grid) require_fits_grid(*this);
  if (flexible) require_flexible_fits(*this);
  if (!balance.speeds.empty()) require_speeds_fit(*this);
  if (balance.encoder) require_encoder_fits(*this);
  if (balance.measured) require_measurable(*this);
  require_at_least(0, balance.placement_tolerance, "balance.placement_tolerance");
  if (balance.placement_tolerance > 0) require_tolerance_fits(*this);
  require_packing_and_count_fit(*this);
  require_order_fits(*this);
  if (sharing != PrefixSharing::none) require_sharing_fits(*this);
  if (micro_batch.shapes) require_shapes_fit(*this);
  for (const int group : {cp.size, largest_group()}) {
    if (cap(group) >= alignment(group)) continue;
    throw ConfigError(flexible ? "micro_batch.max_tokens_per_rank" : "micro_batch.max_tokens",
                      "the cap of " + std::to_string(cap(group)) +
                          " tokens is below the alignment of one sequence, " +
                          std::to_string(alignment(group)) + " tokens" +
                          (flexible ? ", in a group of " + std::to_string(group) : ""),
                      "Raise the cap or lower tp, cp, pack.align_lcm or, for padded micro-batches, "
                      "micro_batch.length_round");
  }
}

}  // namespace evenkeel
