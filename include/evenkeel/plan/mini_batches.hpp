#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// The hierarchy global batch -> DP batch -> mini-batch of one step: which table entries each DP rank has in
/// each mini-batch. Every entry stands in one mini-batch of one rank; none is dropped.
class MiniBatches {
 public:
  /// `groups` lists dp groups a mini-batch: group m * dp + r belongs to mini-batch m and DP rank r. Throws
  /// InputError when dp is below 1 or does not divide the number of groups.
  MiniBatches(Partition groups, int dp);

  /// Mini-batches.
  [[nodiscard]] std::int64_t size() const noexcept { return groups_.size() / dp_; }
  /// The table entries of a DP rank in a mini-batch: ascending, or in the reference's order where a preset
  /// deals. Preconditions: both are in range.
  [[nodiscard]] std::span<const Item> of(std::int64_t mini_batch, DpRank rank) const noexcept {
    return groups_[mini_batch * dp_ + rank.value()];
  }
  /// The shares of all DP ranks in one mini-batch. Precondition: it is in range.
  [[nodiscard]] Partition shares(std::int64_t mini_batch) const;
  /// All groups, mini-batch after mini-batch, rank after rank.
  [[nodiscard]] const Partition& groups() const noexcept { return groups_; }

  friend bool operator==(const MiniBatches&, const MiniBatches&) = default;

 private:
  Partition groups_;
  std::int64_t dp_;
};

/// Cuts a step into settings.mini_batches before anything is dealt, as split_into_mini_batches does with
/// `keep`: the table entries of each, ascending. Pure, deterministic. Throws ConfigError when the count is
/// below 1.
[[nodiscard]] Partition cut_into_mini_batches(const LengthTable& table, const PlanSettings& settings,
                                              std::int64_t step);

/// Cuts a step into settings.mini_batches, whose sizes differ by one sample at most (over all ranks with
/// `keep`, on each rank without), and deals them to the DP ranks by assign_to_dp_ranks. With fewer samples
/// than mini-batches some are empty. `step` names the draw. Pure and deterministic on replicated input.
///
/// Throws ConfigError when the count is below 1, and as assign_to_dp_ranks does.
[[nodiscard]] MiniBatches split_into_mini_batches(const LengthTable& table, const PlanSettings& settings,
                                                  std::int64_t step);

}  // namespace evenkeel
