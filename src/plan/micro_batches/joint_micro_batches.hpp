#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

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
