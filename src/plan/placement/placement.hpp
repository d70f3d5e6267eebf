#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// The current locations of a partition's items, and the value of keeping them there. An item consists of
/// pieces, each with one owner: one piece, or several if samples share tokens that different owners supply.
struct PlacementInput {
  std::span<const WorldRank> owners;       ///< owner of each piece
  std::span<const std::int64_t> bytes;     ///< size of each piece in bytes (or tokens)
  std::span<const int> dp_of_rank;         ///< the DP rank of each world rank
  std::span<const int> node_of_rank = {};  ///< the node of each world rank; empty if unknown
  /// Speed of each DP rank; empty if all are equal. Part r was made for the speed of DP rank r, and may only
  /// be assigned to DP ranks of that speed.
  std::span<const std::int64_t> speeds = {};
  std::int64_t own_weight = 2;  ///< value of a byte that the DP rank's own ranks hold
  /// Value of a byte that other ranks on the DP rank's nodes hold; at most own_weight.
  std::int64_t node_weight = 1;
  /// Index of each item's first piece, followed by the total number of pieces; empty if each item is one
  /// piece.
  std::span<const std::int64_t> first_pieces = {};

  [[nodiscard]] std::int64_t num_items() const noexcept {
    return first_pieces.empty() ? std::ssize(owners) : std::ssize(first_pieces) - 1;
  }
  [[nodiscard]] RowRange pieces_of(Item item) const noexcept {
    if (first_pieces.empty()) return {item, item + 1};
    const auto at = static_cast<std::size_t>(item);
    return {first_pieces[at], first_pieces[at + 1]};
  }
};

/// An assignment of parts to DP ranks.
struct Placement {
  std::vector<std::int64_t> part_of_rank;  ///< by DP rank: the part that it gets
  std::int64_t value = 0;                  ///< weighted number of bytes that need not move
  std::int64_t identity_value = 0;         ///< `value` of the identity: DP rank r gets part r
  std::int64_t upper_bound =
      0;  ///< upper bound on `value` over all placements; equal to `value` for up to 256 DP ranks

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Assigns one part to each DP rank such that the total value of bytes that need not move is as large as
/// possible. The result is optimal for up to 256 parts (best_assignment) and good for more parts
/// (good_assignment). It is the identity if no better placement is found. `parts` has dp parts of n items;
/// part r was made for DP rank r's speed.
///
/// Deterministic, local on replicated input. O(n + dp^3) time for up to 256 parts, O(n + dp^2 log dp) for
/// more parts; O(dp^2) memory. Throws InputError if lists differ in length, a rank, DP rank, node or weight
/// is out of range, a size is negative, or the sum of weighted bytes is too large.
[[nodiscard]] Placement best_placement(const Partition& parts, const PlacementInput& input);

/// Returns the parts in the order of their ranks: element r is part `part_of_rank[r]`. Precondition:
/// part_of_rank is a permutation of the parts.
[[nodiscard]] Partition reorder_parts(const Partition& parts, std::span<const std::int64_t> part_of_rank);

/// Returns the distinct nodes of each DP rank's world ranks, ascending; empty lists if nodes are unknown.
[[nodiscard]] std::vector<std::vector<int>> nodes_of_dp_ranks(const PlacementInput& input, std::int64_t dp);

/// Throws InputError unless every piece has an owner and a size, and items are consecutive ranges of pieces.
void require_valid_pieces(const PlacementInput& input);

/// Decides which DP rank gets which share of the step, so that as many tokens as possible stay where they are
/// (best_placement). Shares are permuted in the same way in all mini-batches. Does nothing if placement is
/// off or the DP ranks of world ranks are unknown. Precondition: units are assigned, and micro-batches are
/// not planned yet, except those of grids, which do not follow from the units.
void place_shares(const StepProblem& problem, StepAssignment& assignment);

}  // namespace evenkeel
