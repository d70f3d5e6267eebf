#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// How a step's global batch is cut into mini-batches, one an optimizer update.
struct MiniBatchSettings {
  std::int64_t count = 1;  ///< mini-batches of a step
  /// True: mini-batches are cut first, and each is balanced over the DP ranks on its own, so that which
  /// samples share an update does not depend on the mesh. False: the global batch is balanced over the DP
  /// ranks, then each rank's share is cut at random, as ROLL does.
  bool keep = true;
  bool shuffle = false;    ///< with keep: draw the mini-batches at random rather than in source order
  std::uint64_t seed = 1;  ///< of what is drawn; every step has its own draw

  friend bool operator==(const MiniBatchSettings&, const MiniBatchSettings&) = default;
};

/// The hierarchy global batch -> DP batch -> mini-batch of one step: which table entries each DP rank has in
/// each mini-batch. Every entry stands in one mini-batch of one rank; none is dropped.
class MiniBatches {
 public:
  /// `groups` lists dp groups a mini-batch: group m * dp + r belongs to mini-batch m and DP rank r. Throws
  /// InputError when dp is below 1 or does not divide the number of groups.
  MiniBatches(Partition groups, int dp);

  /// Mini-batches.
  [[nodiscard]] std::int64_t size() const noexcept { return groups_.size() / dp_; }
  /// The table entries of a DP rank in a mini-batch, ascending. Preconditions: both are in range.
  [[nodiscard]] std::span<const Item> of(std::int64_t mini_batch, DpRank rank) const noexcept {
    return groups_[mini_batch * dp_ + rank.value()];
  }
  /// All groups, mini-batch after mini-batch, rank after rank.
  [[nodiscard]] const Partition& groups() const noexcept { return groups_; }

  friend bool operator==(const MiniBatches&, const MiniBatches&) = default;

 private:
  Partition groups_;
  std::int64_t dp_;
};

/// Cuts a step into mini-batches whose sizes differ by one sample at most (over all ranks with `keep`, on
/// each rank without), and deals them to the DP ranks by assign_to_dp_ranks. With fewer samples than
/// mini-batches some are empty. `step` names the draw. Pure and deterministic on replicated input.
///
/// Throws ConfigError when the count is below 1, and as assign_to_dp_ranks does.
[[nodiscard]] MiniBatches split_into_mini_batches(const LengthTable& table, const PlanSettings& settings,
                                                  const MiniBatchSettings& mini_batches, std::int64_t step);

}  // namespace evenkeel
