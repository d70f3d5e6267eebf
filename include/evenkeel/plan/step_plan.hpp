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

/// What a step is planned from. Replicated: every rank holds an equal one, so that what is worked out from it
/// alone is equal too. It refers to its parts, which must outlive it.
struct StepProblem {
  const LengthTable& table;
  const PlanSettings& settings;
  std::int64_t step = 0;  ///< names what is drawn for it
  /// The groups of samples that share prefixes, every entry in one of them; asked for with
  /// PrefixSharing::trees only, since lengths alone cannot tell.
  std::span<const SharedGroup> trees = {};
};

/// One micro-batch: which samples, and how much of everything. Empty ones have no entries: they exist so that
/// all DP ranks have as many, or one at least, weigh nothing, and are laid out as one filler sequence.
struct MicroBatchPlan {
  std::vector<EntryId> entries;     ///< table entries in the order in which they are packed
  std::int64_t tokens = 0;          ///< true tokens, shared ones once
  std::int64_t aligned_tokens = 0;  ///< tokens after alignment or padding: what the cap limits
  Cost cost = 0;                    ///< its work; with `mesh.cp: flexible` how long its ranks take for it
  std::int64_t padded_length = 0;   ///< of every sequence, over the whole CP group; 0: each is aligned alone
  MiniBatchId mini_batch{0};        ///< the optimizer update it belongs to
  ContextGroup context = {};        ///< who runs it
  /// With shared prefixes: the units that it holds, in packed order; entries follow theirs. Else empty, since
  /// units are numbered as entries are.
  std::vector<UnitId> units = {};
  /// With micro_batch.shapes: what it is padded to when it is handed out. A DataService chooses it; plan_step
  /// leaves it open.
  std::optional<PackedShape> shape = std::nullopt;

  [[nodiscard]] bool empty() const noexcept { return entries.empty(); }
  /// Whether this DP rank is the first of those that run it, and list it: by which it is counted once. A DP
  /// rank has one place at least.
  [[nodiscard]] bool is_led_by(DpRank rank) const noexcept { return context.first.value() >= rank.value(); }
  friend bool operator==(const MicroBatchPlan&, const MicroBatchPlan&) = default;
};

/// The share of one DP rank in a step, over all its mini-batches.
struct DpRankPlan {
  /// No packing of its samples under the cap and the sample limit has fewer micro-batches; with a grid no
  /// plan of the step has fewer a DP rank.
  std::int64_t lower_bound = 0;
  std::int64_t needed = 0;  ///< the fewest for which a packing was found, before the count was agreed
  std::vector<MicroBatchPlan> micro_batches;  ///< mini-batch after mini-batch

  [[nodiscard]] std::int64_t tokens() const noexcept;
  [[nodiscard]] std::int64_t aligned_tokens() const noexcept;
  [[nodiscard]] Cost cost() const noexcept;

  friend bool operator==(const DpRankPlan&, const DpRankPlan&) = default;
};

/// A whole step: every DP rank's micro-batches.
struct StepPlan {
  /// Micro-batches of each mini-batch, equal on all DP ranks; in a context tree (`mesh.cp: flexible` with
  /// strategy hierarchical), where a rank has as many as it takes part in, and one at least, the most of any.
  std::vector<std::int64_t> counts;
  std::vector<DpRankPlan> ranks;  ///< one a DP rank

  /// K, over all mini-batches.
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// Plans a whole step in one process: the same shares, counts and micro-batches that the ranks of a job
/// arrive at together. Throws as assign_step does. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

/// The weights of every micro-batch of a plan in the loss, one list a DP rank: what the ranks of a job work
/// out for theirs. Throws ConfigError when settings.norm_length < 1. Pure, exact. Precondition: `plan` comes
/// from plan_step of this table. O(samples).
[[nodiscard]] std::vector<std::vector<MicroBatchLoss>> step_losses(const LengthTable& table,
                                                                   const StepPlan& plan,
                                                                   const LossSettings& settings);

/// One 64-bit hash of a whole plan: which samples every micro-batch of every DP rank holds, in which order.
/// Equal plans have equal hashes on every machine. O(samples).
[[nodiscard]] std::uint64_t plan_hash(const StepPlan& plan) noexcept;

}  // namespace evenkeel
