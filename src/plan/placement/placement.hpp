#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Where the items of a partition are now, and what keeping them there is worth. An item is one piece, held
/// by one owner, or several: samples that share tokens come from all their owners.
struct PlacementInput {
  std::span<const WorldRank> owners;       ///< who holds each piece
  std::span<const std::int64_t> bytes;     ///< what each piece weighs when it moves (or its tokens)
  std::span<const int> dp_of_rank;         ///< the DP rank each world rank belongs to
  std::span<const int> node_of_rank = {};  ///< the node of each world rank; empty: not known
  /// Of each DP rank; empty: all alike. A part is made for a speed and goes to a rank of that speed only.
  std::span<const std::int64_t> speeds = {};
  std::int64_t own_weight = 2;   ///< worth of a byte that stays on the ranks that make up a DP rank
  std::int64_t node_weight = 1;  ///< worth of one that stays on a node where the DP rank has ranks; no more
  /// The first piece of each item, and the number of pieces at the end; empty: an item is a piece.
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

/// Which part each DP rank gets.
struct Placement {
  std::vector<std::int64_t> part_of_rank;  ///< a permutation of 0..dp-1
  std::int64_t value = 0;                  ///< weighted bytes that stay
  std::int64_t identity_value = 0;         ///< the same if DP rank r got part r
  std::int64_t upper_bound = 0;            ///< no placement is worth more; `value` itself up to 256 DP ranks

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Partitions are unlabelled: gives each part to the DP rank where most of its bytes are already. The best
/// placement up to 256 parts (best_assignment), a good one above (good_assignment); the identity where
/// nothing is gained over it. `parts` has dp parts of n items, part r made for DP rank r's speed.
///
/// Deterministic, local on replicated input. O(n + dp^3) up to 256 parts, O(n + dp^2 log dp) above; dp^2
/// memory. Throws InputError when lists differ in length, a rank, DP rank or node is out of range, a weight
/// or size is negative, or the weighted bytes are too many.
[[nodiscard]] Placement best_placement(const Partition& parts, const PlacementInput& input);

/// The parts in the order of the ranks that get them: rank r's place has part `part_of_rank[r]`.
/// Precondition: a permutation of the parts.
[[nodiscard]] Partition reorder_parts(const Partition& parts, std::span<const std::int64_t> part_of_rank);

/// The nodes where each DP rank has ranks, each once, ascending; none where nodes are not known.
[[nodiscard]] std::vector<std::vector<int>> nodes_of_dp_ranks(const PlacementInput& input, std::int64_t dp);

/// Throws InputError unless every piece has an owner and bytes, and items are runs of whole pieces.
void require_whole_pieces(const PlacementInput& input);

/// Gives each DP rank the share of the step that it holds most tokens of (best_placement), the same share
/// number in all mini-batches. Nothing changes without placement, or if nobody says which rank belongs to
/// which DP rank.
/// Precondition: units are assigned, and micro-batches planned for grids alone.
void place_shares(const StepProblem& problem, StepAssignment& assignment);

}  // namespace evenkeel
