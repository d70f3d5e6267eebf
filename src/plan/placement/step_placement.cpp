#include "plan/placement/step_placement.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "plan/placement/placement.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

bool wants_placement(const PlanSettings& settings) {
  return settings.balance.placement == PlacementRule::locality && !settings.dp_of_rank.empty();
}

/// Who holds each sample, as far as placing goes. Ranks beside the grid are near no DP rank. What they bring
/// is placed as if each rank of the grid had brought an equal, contiguous share of it, so that a step is
/// planned alike whoever reads it.
class Holders {
 public:
  /// Of ranks 0..places-1 in the grid.
  Holders(const LengthTable& table, std::size_t places) : places_(static_cast<std::int64_t>(places)) {
    for (const LengthEntry& entry : table.entries()) {
      if (entry.owner.index() < places) continue;
      first_.resize(std::max(first_.size(), entry.owner.index() - places + 2));
      ++first_[entry.owner.index() - places + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
  }

  [[nodiscard]] WorldRank of(const LengthEntry& entry) const {
    if (entry.owner.value() < places_) return entry.owner;
    const std::int64_t position =
        first_[entry.owner.index() - static_cast<std::size_t>(places_)] + entry.owner_index;
    const std::int64_t share = first_.back() / places_;
    const std::int64_t in_larger = first_.back() % places_ * (share + 1);
    const std::int64_t place =
        position < in_larger ? position / (share + 1) : places_ - (first_.back() - position - 1) / share - 1;
    return WorldRank{static_cast<int>(place)};
  }

 private:
  std::int64_t places_;
  std::vector<std::int64_t> first_;  // samples of the ranks beside the grid in front of each of them, and all
};

/// Who holds the tokens of each unit: a piece a segment, which comes from one owner.
class HeldPieces {
 public:
  HeldPieces(const LengthTable& table, const PackUnits& units, std::size_t places) {
    const Holders holders(table, places);
    const auto add = [&](EntryId entry, std::int64_t rows) {
      owners_.push_back(holders.of(table[entry]));
      tokens_.push_back(rows);
    };
    for (const UnitId u : ids_below<UnitId>(units.size())) {
      const PackUnit unit = units[u];
      if (unit.tree == nullptr) {
        add(unit.entries.front(), unit.rows);
        continue;
      }
      first_of_unit_.push_back(std::ssize(owners_));
      for (const TreeSegment& segment : unit.tree->segments())
        add(unit.entries[static_cast<std::size_t>(segment.first_sample)], segment.rows.size());
    }
    if (!first_of_unit_.empty()) first_of_unit_.push_back(std::ssize(owners_));
  }

  [[nodiscard]] PlacementInput input(const PlanSettings& settings) const {
    PlacementInput input{owners_, tokens_, settings.dp_of_rank, settings.node_of_rank,
                         settings.balance.speeds};
    input.first_pieces = first_of_unit_;
    return input;
  }

 private:
  std::vector<WorldRank> owners_;
  std::vector<std::int64_t> tokens_;
  std::vector<std::int64_t> first_of_unit_;  // empty: a piece each
};

/// The units of each DP rank over all mini-batches, as items to be placed.
Partition whole_shares(const StepAssignment& assignment, int dp) {
  std::vector<std::vector<Item>> shares(static_cast<std::size_t>(dp));
  for (const MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    for (std::int64_t r = 0; r < dp; ++r) {
      const std::span<const Item> share = mini_batch.units.items()[r];
      std::vector<Item>& whole = shares[static_cast<std::size_t>(r)];
      whole.insert(whole.end(), share.begin(), share.end());
    }
  }
  return Partition(shares);
}

/// Else micro-batches follow from shares, and are planned once these are placed.
bool only_grids_are_planned(const StepProblem& problem, const StepAssignment& assignment) {
  const bool follows = strategy_of(problem.settings).follows_from_units();
  return std::ranges::all_of(assignment.mini_batches, [&](const MiniBatchAssignment& mini_batch) {
    return mini_batch.joint.none_planned() == follows;
  });
}

void relabel(StepAssignment& assignment, std::span<const std::int64_t> part_of_rank) {
  if (std::ranges::is_sorted(part_of_rank)) return;
  for (MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    mini_batch.units = IdGroups<UnitId>(reorder_parts(mini_batch.units.items(), part_of_rank));
    if (!mini_batch.joint.none_planned()) mini_batch.joint.reorder_ranks(part_of_rank);
  }
}

}  // namespace

void place_shares(const StepProblem& problem, StepAssignment& assignment) {
  const PlanSettings& settings = problem.settings;
  if (!wants_placement(settings)) return;
  EVENKEEL_PRECONDITION(cheap, only_grids_are_planned(problem, assignment), assignment.mini_batches.size());
  const HeldPieces pieces(problem.table, assignment.units, settings.dp_of_rank.size());
  const PlacementInput input = pieces.input(settings);
  relabel(assignment, best_placement(whole_shares(assignment, settings.dp), input).part_of_rank);
}

}  // namespace evenkeel
