#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/grid.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/loss.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel {

/// The input of a step's plan. Replicated: every rank holds an equal one, so that everything computed from it
/// alone is equal, too. It refers to its parts, which must outlive it.
struct StepProblem {
  const LengthTable& table;
  const PlanSettings& settings;
  std::int64_t step = 0;  ///< selects its random draws
  /// The groups of samples that share prefixes, every entry in one of them; needed only with
  /// PrefixSharing::trees, since lengths do not determine them.
  std::span<const SharedGroup> trees = {};
};

/// One micro-batch: its samples, and its size and cost. Empty ones have no entries: they exist so that all DP
/// ranks have the same number, or at least one, have weight 0, and are laid out as one filler sequence.
struct MicroBatchPlan {
  std::vector<EntryId> entries;     ///< table entries in the order in which they are packed
  std::int64_t tokens = 0;          ///< true tokens, counting shared ones once
  std::int64_t aligned_tokens = 0;  ///< tokens after alignment or padding, which the cap limits
  Cost cost = 0;                    ///< its work; with `mesh.cp: flexible` how long its ranks take
  std::int64_t padded_length = 0;   ///< of every sequence, over the whole CP group; 0: each has its own
  MiniBatchId mini_batch{0};        ///< the optimizer update it belongs to
  ContextGroup context = {};        ///< the places that run it
  /// With shared prefixes: its units, in packed order; entries are in the same order. Otherwise empty, since
  /// units have the numbers of entries.
  std::vector<UnitId> units = {};
  /// With micro_batch.shapes: the shape that it is padded to. A DataService chooses it; plan_step leaves it
  /// unset.
  std::optional<PackedShape> shape = std::nullopt;

  [[nodiscard]] bool empty() const noexcept { return entries.empty(); }
  /// Whether this DP rank is the first of those that run it and list it, for counting it once. A DP rank has
  /// at least one place.
  [[nodiscard]] bool is_led_by(DpRank rank) const noexcept { return context.first.value() >= rank.value(); }
  friend bool operator==(const MicroBatchPlan&, const MicroBatchPlan&) = default;
};

/// The share of one DP rank in a step, over all its mini-batches.
struct DpRankPlan {
  /// No packing of its samples under the cap and the sample limit has fewer micro-batches; with a grid, no
  /// plan of the step has fewer for each DP rank.
  std::int64_t lower_bound = 0;
  std::int64_t needed = 0;  ///< the fewest for which a packing was found, before ranks agreed on the count
  std::vector<MicroBatchPlan> micro_batches;  ///< mini-batch after mini-batch

  [[nodiscard]] std::int64_t tokens() const noexcept;
  [[nodiscard]] std::int64_t aligned_tokens() const noexcept;
  [[nodiscard]] Cost cost() const noexcept;

  friend bool operator==(const DpRankPlan&, const DpRankPlan&) = default;
};

/// A whole step: every DP rank's micro-batches.
struct StepPlan {
  /// Micro-batches of each mini-batch, equal on all DP ranks; in a context tree (`mesh.cp: flexible` with
  /// strategy hierarchical), where each rank has those that it takes part in, and at least one, the largest
  /// number of any rank.
  std::vector<std::int64_t> counts;
  std::vector<DpRankPlan> ranks;  ///< one a DP rank

  /// K, over all mini-batches.
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// Plans a whole step in one process: the same shares, counts and micro-batches that the ranks of a job
/// arrive at together. Throws as assign_step does. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

/// The weights in the loss of every micro-batch of a plan, one list for each DP rank, as the ranks of a job
/// compute them. Throws ConfigError if settings.norm_length < 1. Pure, exact. Precondition: `plan` comes from
/// plan_step of this table. O(samples).
[[nodiscard]] std::vector<std::vector<MicroBatchLoss>> step_losses(const LengthTable& table,
                                                                   const StepPlan& plan,
                                                                   const LossSettings& settings);

/// A 64-bit hash of a whole plan: which samples every micro-batch of every DP rank has, in which order. Equal
/// plans have equal hashes on every machine. O(samples).
[[nodiscard]] std::uint64_t plan_hash(const StepPlan& plan) noexcept;

}  // namespace evenkeel
