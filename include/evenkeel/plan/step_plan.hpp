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

/// The input of a step's plan. Replicated: every rank holds an equal input, so results that depend only on it
/// are equal, too. It refers to its parts, which must outlive it.
struct StepProblem {
  const LengthTable& table;
  const PlanSettings& settings;
  std::int64_t step = 0;  ///< number of the step, which selects its random draws
  /// The groups of samples that share prefixes; each entry is in one of them. Needed only with
  /// PrefixSharing::trees, since lengths do not determine them.
  std::span<const SharedGroup> trees = {};
};

/// A micro-batch: its samples, size and cost. Empty micro-batches do not have entries: they make the number
/// of micro-batches equal on all DP ranks, or at least one, have weight 0, and are laid out as one filler
/// sequence.
struct MicroBatchPlan {
  std::vector<EntryId> entries;     ///< table entries in the order in which they are packed
  std::int64_t tokens = 0;          ///< true tokens, counting shared ones once
  std::int64_t aligned_tokens = 0;  ///< number of tokens after alignment or padding, which the cap limits
  Cost cost = 0;                    ///< work; with `mesh.cp: flexible`, the time of the ranks that run it
  /// Length of every sequence over the whole CP group; 0 if each has its own length.
  std::int64_t padded_length = 0;
  MiniBatchId mini_batch{0};  ///< optimizer update to which it belongs
  ContextGroup context = {};  ///< the places that run it
  /// With shared prefixes: its units, in packed order; entries are in the same order. Otherwise empty, since
  /// units are then numbered like entries.
  std::vector<UnitId> units = {};
  /// With micro_batch.shapes: the shape to which it is padded. A DataService chooses it; plan_step() leaves
  /// it unset.
  std::optional<PackedShape> shape = std::nullopt;

  [[nodiscard]] bool empty() const noexcept { return entries.empty(); }
  /// Returns whether this DP rank is the first of those that run and list it, so that it can be counted once.
  /// A DP rank has at least one place.
  [[nodiscard]] bool is_led_by(DpRank rank) const noexcept { return context.first.value() >= rank.value(); }
  friend bool operator==(const MicroBatchPlan&, const MicroBatchPlan&) = default;
};

/// The share of one DP rank in a step, over all its mini-batches.
struct DpRankPlan {
  /// Lower bound on the number of micro-batches of any packing of its samples under the cap and the limit on
  /// samples; with a grid, on the number for each DP rank in any plan of the step.
  std::int64_t lower_bound = 0;
  /// Smallest number for which a packing was found, before ranks agreed on the count.
  std::int64_t needed = 0;
  std::vector<MicroBatchPlan> micro_batches;  ///< ordered by mini-batch

  [[nodiscard]] std::int64_t tokens() const noexcept;
  [[nodiscard]] std::int64_t aligned_tokens() const noexcept;
  [[nodiscard]] Cost cost() const noexcept;

  friend bool operator==(const DpRankPlan&, const DpRankPlan&) = default;
};

/// A whole step: every DP rank's micro-batches.
struct StepPlan {
  /// Number of micro-batches of each mini-batch, equal on all DP ranks. In a context tree (`mesh.cp:
  /// flexible` with strategy hierarchical) and with PackedSettings::free_counts, each rank has its own
  /// number, at least one; this is then the maximum over the ranks.
  std::vector<std::int64_t> counts;
  std::vector<DpRankPlan> ranks;  ///< one per DP rank

  /// Returns K, the total over all mini-batches.
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// Plans a whole step in one process, with the same shares, counts and micro-batches as those of a job's
/// ranks. Throws ConfigError for incompatible settings, LimitError for a sample above a cap, and InputError
/// for invalid trees or missing fields. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

/// Returns the weights in the loss of every micro-batch of a plan, one list per DP rank, as a job's ranks
/// compute them. Throws ConfigError if settings.norm_length < 1. Pure, exact. Precondition: `plan` is the
/// result of plan_step() for this table. O(samples).
[[nodiscard]] std::vector<std::vector<MicroBatchLoss>> step_losses(const LengthTable& table,
                                                                   const StepPlan& plan,
                                                                   const LossSettings& settings);

/// Returns a 64-bit hash of a whole plan: of the samples, in order, of every micro-batch of every DP rank.
/// Equal plans have equal hashes on every machine. O(samples).
[[nodiscard]] std::uint64_t plan_hash(const StepPlan& plan) noexcept;

}  // namespace evenkeel
