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

/// The figures of a micro-batch, without its contents. See MicroBatchPlan for the meaning of the members.
struct MicroBatchFigures {
  std::int64_t tokens = 0;
  std::int64_t aligned_tokens = 0;
  Cost cost = 0;
  std::int64_t padded_length = 0;
  ContextGroup context = {};

  friend bool operator==(const MicroBatchFigures&, const MicroBatchFigures&) = default;
};

/// Returns the total tokens, aligned tokens and cost of these units. Tokens are aligned for the CP group of a
/// DP rank; the other figures keep their defaults.
[[nodiscard]] MicroBatchFigures figures_of(const PackUnits& units, std::span<const UnitId> chosen);

/// Return the micro-batch of these units, in this order. The figures are computed, or given as an argument.
[[nodiscard]] MicroBatchPlan micro_batch_of(const PackUnits& units, std::span<const UnitId> chosen);
[[nodiscard]] MicroBatchPlan micro_batch_of(const PackUnits& units, std::span<const UnitId> chosen,
                                            const MicroBatchFigures& figures);

/// Returns the first sample that exceeds the cap on its own, even on the largest group; null if all samples
/// fit.
[[nodiscard]] const LengthEntry* find_first_above_cap(const LengthTable& table, const PlanSettings& settings);

/// Throws LimitError if a sample exceeds the cap on its own, naming the sample, its length, its aligned
/// length and the cap. The table is replicated, so every rank throws the same error. Precondition: each group
/// consists of the places of one DP rank.
void require_within_cap(const LengthTable& table, const PlanSettings& settings);

/// Throws LimitError if a sample has more tokens than a path of a tree may have. The error names the first
/// such sample, its tokens and the cap on paths. The table is replicated, so every rank throws the same
/// error.
void require_within_path_cap(const LengthTable& table, const PlanSettings& settings);

/// Returns the number of micro-batches that all DP ranks use, given the maximum number that any rank needs:
/// at least 1 and at least min_count, rounded up to a multiple of PlanSettings::count_multiple().
[[nodiscard]] std::int64_t agreed_count(std::int64_t largest_needed, const PlanSettings& settings) noexcept;

/// Reorders micro-batches in place. `plan` keeps the order, and `cost` sorts by descending (cost, first
/// entry). `pipeline` sorts in the same way, then takes the 1st, 3rd, 5th, ... micro-batch in reverse order,
/// followed by the 2nd, 4th, ..., as verl and ROLL do. This puts the costliest micro-batches in the middle.
///
/// Example: with `pipeline`, costs {5, 4, 3, 2, 1} become {1, 3, 5, 4, 2}.
///
/// Precondition: the order is not `schedule`, which needs the settings.
void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, MicroBatchOrder order);

/// Reorders micro-batches in place by the settings' order. For `schedule`, this is order_by_schedule() with
/// the settings' pp and vpp and the orders `pipeline`, `plan` and `cost` as candidates; if pp is 1, the order
/// is `pipeline`. The budget for finding a better order is at most 2^20 simulation steps per list, and
/// decreases with the number of mini-batches of a step and with `lists`, the number of lists ordered per
/// mini-batch: one per DP rank, or one for all ranks. Precondition: lists >= 1.
void order_micro_batches(std::vector<MicroBatchPlan>& micro_batches, const PlanSettings& settings,
                         std::int64_t lists);

/// The micro-batches of all DP ranks if they are planned jointly. This is the case for grids, for padded
/// micro-batches, which have the same lengths on all ranks, and for micro-batches that several DP ranks run
/// together. A value type. All units are stored in one list, since there are many micro-batches.
class JointMicroBatches {
 public:
  /// No joint plan: each DP rank plans its own micro-batches.
  JointMicroBatches() = default;
  /// A joint plan for `ranks` DP ranks, which do not run any micro-batches yet.
  explicit JointMicroBatches(int ranks) : of_ranks_(static_cast<std::size_t>(ranks)) {}

  /// Reserves memory for this number of micro-batches with this total number of units.
  void reserve(std::size_t micro_batches, std::size_t units);
  /// Adds a micro-batch. Returns its number, counted from 0.
  std::int64_t add(std::span<const UnitId> units, const MicroBatchFigures& figures);
  /// Adds a micro-batch at the end of the list that a rank runs.
  void append_to_rank(DpRank rank, std::int64_t micro_batch) {
    of_ranks_[rank.index()].push_back(micro_batch);
  }
  /// Sets all micro-batches that a rank runs, in execution order.
  void set_run_order(DpRank rank, std::vector<std::int64_t> micro_batches) {
    of_ranks_[rank.index()] = std::move(micro_batches);
  }
  /// Reassigns micro-batches: rank r runs the micro-batches that rank rank_of[r] ran before.
  void reorder_ranks(std::span<const std::int64_t> rank_of);

  [[nodiscard]] bool is_planned() const noexcept { return !of_ranks_.empty(); }
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(figures_); }
  [[nodiscard]] std::span<const UnitId> units_of(std::int64_t micro_batch) const noexcept;
  [[nodiscard]] const MicroBatchFigures& figures_of(std::int64_t micro_batch) const noexcept {
    return figures_[static_cast<std::size_t>(micro_batch)];
  }
  [[nodiscard]] std::span<const std::int64_t> micro_batches_of(DpRank rank) const noexcept {
    return of_ranks_[rank.index()];
  }

  GroupCount count;  ///< number of micro-batches that a DP rank needs, and a lower bound on it

  friend bool operator==(const JointMicroBatches&, const JointMicroBatches&) = default;

 private:
  std::vector<UnitId> units_;  // ordered by micro-batch
  std::vector<std::int64_t> offsets_{0};
  std::vector<MicroBatchFigures> figures_;
  std::vector<std::vector<std::int64_t>> of_ranks_;
};

}  // namespace evenkeel
