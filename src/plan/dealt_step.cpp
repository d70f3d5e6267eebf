#include "evenkeel/plan/dealt_step.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dealt_atoms.hpp"
#include "evenkeel/base/hash.hpp"
#include "evenkeel/plan/fixed_micro_batches.hpp"
#include "evenkeel/plan/grid_plan.hpp"
#include "evenkeel/plan/mini_batches.hpp"
#include "evenkeel/plan/padded_batching.hpp"
#include "evenkeel/plan/placement.hpp"
#include "preset_micro_batches.hpp"
#include "seeded_order.hpp"
#include "step_moves.hpp"

namespace evenkeel {
namespace {

PaddedBatchingSettings padded_settings(const PlanSettings& settings) {
  PaddedBatchingSettings padded;
  padded.dp = settings.dp;
  padded.max_tokens = settings.micro_batch.max_tokens;
  padded.length_round = settings.alignment();
  padded.max_samples = settings.micro_batch.limits().max_items;
  padded.min_count = settings.micro_batch.min_count;
  padded.count_multiple = settings.count_multiple();
  return padded;
}

void plan_padded(const LengthTable& table, const PlanSettings& settings, DealtMiniBatch& mini_batch) {
  const PaddedBatches batches =
      plan_padded_batches(mini_batch.shares, table.sample_lengths(), padded_settings(settings));
  std::vector<std::vector<MicroBatchPlan>>& planned = mini_batch.planned;
  planned.resize(static_cast<std::size_t>(settings.dp));
  for (int r = 0; r < settings.dp; ++r) {
    for (std::size_t m = 0; m < batches.micro_batches.size(); ++m) {
      const std::span<const Item> samples = batches.samples(DpRank{r}, static_cast<std::int64_t>(m));
      planned[static_cast<std::size_t>(r)].push_back(micro_batch_of(
          table, {samples.begin(), samples.end()}, settings, batches.micro_batches[m].padded_length));
    }
  }
  mini_batch.planned_count = {std::ssize(batches.micro_batches), std::ssize(batches.micro_batches)};
}

/// One mini-batch, packed first and distributed second. `entries` ascend.
DealtMiniBatch deal_grid(const LengthTable& table, std::span<const Item> entries,
                         const PlanSettings& settings) {
  GridPlan grid = plan_grid(table.part(entries), settings);
  const auto of_a_rank = [&](std::int64_t cells) { return align_up(cells, settings.dp) / settings.dp; };
  DealtMiniBatch dealt;
  dealt.planned_count = {of_a_rank(grid.cells.lower_bound), of_a_rank(grid.cells.needed)};
  std::vector<std::vector<Item>> shares;
  for (std::vector<MicroBatchPlan>& micro_batches : grid.ranks) {
    std::vector<Item>& share = shares.emplace_back();
    for (MicroBatchPlan& m : micro_batches) {
      for (std::int64_t& entry : m.entries) entry = entries[static_cast<std::size_t>(entry)];
      share.insert(share.end(), m.entries.begin(), m.entries.end());
    }
  }
  dealt.shares = Partition(shares).with_sorted_items();
  dealt.planned = std::move(grid.ranks);
  return dealt;
}

std::vector<DealtMiniBatch> deal_mini_batches(const LengthTable& table, const PlanSettings& settings,
                                              std::int64_t step) {
  std::vector<DealtMiniBatch> dealt;
  if (settings.balance.strategy == Strategy::grid) {
    const Partition mini_batches = cut_into_mini_batches(table, settings, step);
    for (std::int64_t m = 0; m < mini_batches.size(); ++m)
      dealt.push_back(deal_grid(table, mini_batches[m], settings));
    return dealt;
  }
  const MiniBatches mini_batches = split_into_mini_batches(table, settings, step);
  for (std::int64_t m = 0; m < mini_batches.size(); ++m) dealt.emplace_back().shares = mini_batches.shares(m);
  return dealt;
}

/// What each DP rank has over all mini-batches, one after the other.
Partition whole_shares(std::span<const DealtMiniBatch> mini_batches, int dp) {
  if (mini_batches.size() == 1) return mini_batches.front().shares;
  std::vector<std::vector<Item>> shares(static_cast<std::size_t>(dp));
  for (const DealtMiniBatch& mini_batch : mini_batches) {
    for (int r = 0; r < dp; ++r) {
      const std::span<const Item> share = mini_batch.shares[r];
      std::vector<Item>& whole = shares[static_cast<std::size_t>(r)];
      whole.insert(whole.end(), share.begin(), share.end());
    }
  }
  return Partition(shares);
}

bool wants_placement(const PlanSettings& settings) {
  return settings.balance.placement == PlacementRule::locality && settings.balance.preset == Preset::none &&
         !settings.dp_of_rank.empty();
}

void relabel(DealtStep& dealt, std::span<const std::int64_t> part_of_rank) {
  if (std::ranges::is_sorted(part_of_rank)) return;
  dealt.shares = reorder_parts(dealt.shares, part_of_rank);
  for (DealtMiniBatch& mini_batch : dealt.mini_batches) {
    mini_batch.shares = reorder_parts(mini_batch.shares, part_of_rank);
    std::vector<std::vector<MicroBatchPlan>> unplaced = std::move(mini_batch.planned);
    mini_batch.planned.clear();
    if (unplaced.empty()) continue;
    for (const std::int64_t part : part_of_rank)
      mini_batch.planned.push_back(std::move(unplaced[static_cast<std::size_t>(part)]));
  }
}

/// Gives each DP rank the part of the step that it holds most of, one answer for all mini-batches; then moves
/// samples where the settings allow it.
void place(const LengthTable& table, const PlanSettings& settings, DealtStep& dealt) {
  std::vector<WorldRank> owners;
  std::vector<std::int64_t> tokens;
  for (const LengthEntry& entry : table.entries()) {
    owners.push_back(entry.owner);
    tokens.push_back(entry.shape.length());
  }
  const PlacementInput input{owners, tokens, settings.dp_of_rank, settings.node_of_rank,
                             settings.balance.speeds};
  relabel(dealt, best_placement(dealt.shares, input).part_of_rank);
  if (settings.balance.placement_tolerance == 0) return;
  move_samples_to_owners(table, settings, input, dealt);
  dealt.shares = whole_shares(dealt.mini_batches, settings.dp);
}

SegmentTable whole_samples(const LengthTable& table, const DealtStep& dealt, const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment();
  std::vector<Segment> segments;
  segments.reserve(static_cast<std::size_t>(table.size()));
  for (const LengthEntry& entry : table.entries()) {
    const std::int64_t length = entry.shape.length();
    segments.push_back({std::ssize(segments), {0, length}, align_up(length, alignment)});
  }
  for (const DealtMiniBatch& mini_batch : dealt.mini_batches) {
    for (const std::vector<MicroBatchPlan>& of_rank : mini_batch.planned) {
      for (const MicroBatchPlan& m : of_rank) {
        if (m.padded_length == 0) continue;
        for (const std::int64_t entry : m.entries)
          segments[static_cast<std::size_t>(entry)].aligned_length = m.padded_length;
      }
    }
  }
  return {std::move(segments), dealt.shares};
}

std::vector<MicroBatchPlan> plain_split(const LengthTable& table, const DealtStep& dealt,
                                        std::size_t mini_batch, DpRank rank, const PlanSettings& settings) {
  const std::span<const Item> share = dealt.mini_batches[mini_batch].shares[rank.value()];
  std::vector<std::int64_t> entries(share.begin(), share.end());
  if (settings.micro_batch.shuffle) {
    const auto draw = seeded_order(std::ssize(share), settings.seed,
                                   {static_cast<std::uint64_t>(dealt.step), mini_batch, rank.index()});
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = share[static_cast<std::size_t>(draw[i])];
  }
  return fixed_micro_batches(table, entries, settings);
}

GroupCount count_of(const LengthTable& table, const DealtStep& dealt, std::size_t mini_batch, DpRank rank,
                    const PlanSettings& settings) {
  const DealtMiniBatch& dealt_one = dealt.mini_batches[mini_batch];
  const std::span<const Item> share = dealt_one.shares[rank.value()];
  if (!dealt_one.planned.empty()) return dealt_one.planned_count;
  if (settings.micro_batch.mode == MicroBatchMode::fixed) {
    const std::int64_t count = std::ssize(plain_split(table, dealt, mini_batch, rank, settings));
    return {count, count};
  }
  if (dealt.shared) return count_for_atoms(dealt_one, rank, settings);
  if (settings.balance.preset != Preset::none) return count_for_preset(table, share, settings);
  return count_micro_batches(table, share, settings);
}

/// Who gets what, and with grids the micro-batches too.
DealtStep dealt_samples(const LengthTable& table, const PlanSettings& settings, std::int64_t step) {
  DealtStep dealt;
  dealt.step = step;
  dealt.mini_batches = deal_mini_batches(table, settings, step);
  dealt.shares = whole_shares(dealt.mini_batches, settings.dp);
  if (wants_placement(settings)) place(table, settings, dealt);
  return dealt;
}

/// Adds what follows from who gets what.
DealtStep completed(const LengthTable& table, const PlanSettings& settings, DealtStep dealt) {
  if (settings.micro_batch.mode == MicroBatchMode::padded) {
    for (DealtMiniBatch& mini_batch : dealt.mini_batches) plan_padded(table, settings, mini_batch);
  }
  dealt.segments = whole_samples(table, dealt, settings);
  return dealt;
}

void require_fitting(const LengthTable& table, const PlanSettings& settings) {
  settings.validate();
  require_samples_fit(table, settings);
}

}  // namespace

DealtStep deal_step(const LengthTable& table, const PlanSettings& settings, std::int64_t step,
                    std::span<const SharedGroup> trees) {
  require_fitting(table, settings);
  if (settings.sharing == PrefixSharing::trees) {
    require_cover(table, trees);
    return deal_atoms(table, settings, step, {trees.begin(), trees.end()});
  }
  if (settings.sharing == PrefixSharing::prompts) {
    std::vector<std::int64_t> entries(static_cast<std::size_t>(table.size()));
    std::iota(entries.begin(), entries.end(), std::int64_t{0});
    return deal_atoms(table, settings, step, prompt_groups(table, entries));
  }
  return completed(table, settings, dealt_samples(table, settings, step));
}

bool follows_from_shares(const PlanSettings& settings) noexcept {
  return settings.sharing == PrefixSharing::none && settings.balance.strategy != Strategy::grid;
}

std::vector<Partition> deal_shares(const LengthTable& table, const PlanSettings& settings,
                                   std::int64_t step) {
  require_fitting(table, settings);
  std::vector<Partition> shares;
  for (DealtMiniBatch& mini_batch : dealt_samples(table, settings, step).mini_batches)
    shares.push_back(std::move(mini_batch.shares));
  return shares;
}

DealtStep deal_step_by_shares(const LengthTable& table, const PlanSettings& settings, std::int64_t step,
                              std::vector<Partition> shares) {
  DealtStep dealt;
  dealt.step = step;
  for (Partition& of_mini_batch : shares) dealt.mini_batches.emplace_back().shares = std::move(of_mini_batch);
  dealt.shares = whole_shares(dealt.mini_batches, settings.dp);
  return completed(table, settings, std::move(dealt));
}

std::vector<GroupCount> count_micro_batches(const LengthTable& table, const DealtStep& dealt, DpRank rank,
                                            const PlanSettings& settings) {
  std::vector<GroupCount> counts;
  for (std::size_t m = 0; m < dealt.mini_batches.size(); ++m) {
    counts.push_back(count_of(table, dealt, m, rank, settings));
  }
  return counts;
}

std::vector<MicroBatchPlan> plan_mini_batch(const LengthTable& table, const DealtStep& dealt,
                                            std::int64_t mini_batch, DpRank rank, std::int64_t count,
                                            const PlanSettings& settings) {
  const auto at = static_cast<std::size_t>(mini_batch);
  const DealtMiniBatch& one = dealt.mini_batches[at];
  std::vector<MicroBatchPlan> micro_batches;
  if (!one.planned.empty()) {
    micro_batches = one.planned[rank.index()];
  } else if (settings.micro_batch.mode == MicroBatchMode::fixed) {
    micro_batches = plain_split(table, dealt, at, rank, settings);
  } else if (dealt.shared) {
    micro_batches = plan_atoms(one, rank, count, settings);
  } else if (settings.balance.preset != Preset::none) {
    micro_batches = preset_micro_batches(table, one.shares[rank.value()], count, settings);
  } else {
    micro_batches = plan_micro_batches(table, one.shares[rank.value()], count, settings);
  }
  micro_batches.resize(static_cast<std::size_t>(count));
  for (MicroBatchPlan& m : micro_batches) m.mini_batch = mini_batch;
  return micro_batches;
}

std::vector<std::int64_t> segments_of(const DealtStep& dealt, const MicroBatchPlan& plan) {
  if (!dealt.shared) return plan.entries;
  const DealtMiniBatch& mini_batch = dealt.mini_batches[static_cast<std::size_t>(plan.mini_batch)];
  std::vector<std::int64_t> segments;
  for (const std::int64_t a : plan.atoms) {
    const auto at = static_cast<std::size_t>(a);
    for (std::int64_t s = 0; s < mini_batch.atoms[at].group.tree.size(); ++s)
      segments.push_back(mini_batch.first_segments[at] + s);
  }
  return segments;
}

std::uint64_t plan_hash(const Partition& shares, std::span<const std::int64_t> counts) noexcept {
  Fnv1a hash;
  for (const std::int64_t count : counts) hash.add(count);
  for (std::int64_t g = 0; g < shares.size(); ++g) {
    hash.add(std::ssize(shares[g]));
    for (const Item item : shares[g]) hash.add(item);
  }
  return hash.value();
}

}  // namespace evenkeel
