#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// A micro-batch but for what it holds: MicroBatchPlan says what they mean.
struct MicroBatchFigures {
  std::int64_t tokens = 0;
  std::int64_t aligned_tokens = 0;
  Cost cost = 0;
  std::int64_t padded_length = 0;
  ContextGroup context = {};

  friend bool operator==(const MicroBatchFigures&, const MicroBatchFigures&) = default;
};

/// What these units add up to on a DP rank of their own.
[[nodiscard]] MicroBatchFigures figures_of(const PackUnits& units, std::span<const UnitId> chosen);

/// The micro-batch of these units, in this order, its figures worked out, or with these figures.
[[nodiscard]] MicroBatchPlan micro_batch_of(const PackUnits& units, std::span<const UnitId> chosen);
[[nodiscard]] MicroBatchPlan micro_batch_of(const PackUnits& units, std::span<const UnitId> chosen,
                                            const MicroBatchFigures& figures);

/// The first sample that is longer than the cap on its own, on the largest group; nullptr where all fit.
[[nodiscard]] const LengthEntry* first_above_cap(const LengthTable& table, const PlanSettings& settings);

/// Throws LimitError that names it, its length, its aligned length and the cap. On the replicated table, so
/// that every rank throws the same. Precondition: groups are those of DP ranks.
void require_below_cap(const LengthTable& table, const PlanSettings& settings);

/// Throws LimitError that names the first sample with more tokens than a path of a tree may have, its tokens
/// and that cap. On the replicated table, too.
void require_below_path_cap(const LengthTable& table, const PlanSettings& settings);

/// The count all DP ranks use, from the largest any of them needs: at least min_count, rounded up to the
/// multiple that the pipeline needs, at least 1.
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest_needed, const PlanSettings& settings) noexcept;

/// Reorders micro-batches in place. For `pipeline`: by falling (cost, first entry), then every second one
/// reversed and the others after it, as verl and ROLL do, so that the costliest stand in the middle.
///
/// Example: costs {5, 4, 3, 2, 1} become {1, 3, 5, 4, 2}.
///
/// Precondition: not `schedule`, which needs the settings.
void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order);

/// The same by the settings' order. For `schedule` it is order_by_schedule of the orders `pipeline`, `plan`
/// and `cost` with the settings' pp and vpp: where pp is 1, that of `pipeline`. How long it may look for a
/// better one falls with the mini-batches of a step and the `lists` that are ordered for each: one a DP rank,
/// or one of what stands for all. At most 2^20 steps of simulations a list. Precondition: lists >= 1.
void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, const PlanSettings& settings,
                         std::int64_t lists);

/// The micro-batches of all DP ranks where they are planned at once: a grid, or padded ones, which share
/// their lengths, or such as several DP ranks run together. A value type; in one list, since they are many.
class JointMicroBatches {
 public:
  /// None, where each rank plans its own.
  JointMicroBatches() = default;
  /// For so many DP ranks, of which none runs any yet.
  explicit JointMicroBatches(int ranks) : of_ranks_(static_cast<std::size_t>(ranks)) {}

  /// Takes memory for so many, of so many units.
  void reserve(std::size_t micro_batches, std::size_t units);
  /// Another one; returns its number, from 0 on.
  std::int64_t add(std::span<const UnitId> units, const MicroBatchFigures& figures);
  /// As the next one of a rank.
  void run(DpRank rank, std::int64_t micro_batch) { of_ranks_[rank.index()].push_back(micro_batch); }
  /// All that a rank runs, in its order.
  void run_all(DpRank rank, std::vector<std::int64_t> micro_batches) {
    of_ranks_[rank.index()] = std::move(micro_batches);
  }
  /// Rank r runs what rank_of[r] did.
  void reorder_ranks(std::span<const std::int64_t> rank_of);

  [[nodiscard]] bool none_planned() const noexcept { return of_ranks_.empty(); }
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(figures_); }
  [[nodiscard]] std::span<const UnitId> units_of(std::int64_t micro_batch) const noexcept;
  [[nodiscard]] const MicroBatchFigures& figures_of(std::int64_t micro_batch) const noexcept {
    return figures_[static_cast<std::size_t>(micro_batch)];
  }
  [[nodiscard]] std::span<const std::int64_t> of_rank(DpRank rank) const noexcept {
    return of_ranks_[rank.index()];
  }

  GroupCount count;  ///< how many a DP rank needs

  friend bool operator==(const JointMicroBatches&, const JointMicroBatches&) = default;

 private:
  std::vector<UnitId> units_;  // micro-batch after micro-batch
  std::vector<std::int64_t> offsets_{0};
  std::vector<MicroBatchFigures> figures_;
  std::vector<std::vector<std::int64_t>> of_ranks_;
};

}  // namespace evenkeel
