#include "plan/placement/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "balance/partition/assignment.hpp"
#include "base/list_checks.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/settings/checks.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

void require_entry_count(std::string_view what, std::size_t given, std::int64_t wanted) {
  if (static_cast<std::int64_t>(given) == wanted) return;
  throw InputError(std::string(what),
                   "has " + format_plain_count(static_cast<std::int64_t>(given), "entry", "entries") +
                       "; it must have " + std::to_string(wanted));
}

void require_value_in_range(std::string_view what, std::int64_t value, std::int64_t from, std::int64_t end) {
  if (value >= from && value < end) return;
  throw InputError(std::string(what), "the value " + std::to_string(value) + " is invalid; it must be from " +
                                          std::to_string(from) + " to " + std::to_string(end - 1));
}

void require_valid_input(const Partition& parts, const PlacementInput& input) {
  require_valid_pieces(input);
  require_entry_count(input.first_pieces.empty() ? "owners" : "item list of first_pieces",
                      static_cast<std::size_t>(input.num_items()), parts.num_items());
  const auto world = static_cast<std::int64_t>(input.dp_of_rank.size());
  if (!input.speeds.empty()) require_entry_count("speeds", input.speeds.size(), parts.size());
  if (!input.node_of_rank.empty()) require_entry_count("node_of_rank", input.node_of_rank.size(), world);
  for (const WorldRank owner : input.owners) require_value_in_range("owners", owner.value(), 0, world);
  for (const int dp : input.dp_of_rank) require_value_in_range("dp_of_rank", dp, 0, parts.size());
  // Node numbers are used as table indices, so their range is limited.
  for (const int node : input.node_of_rank) require_value_in_range("node_of_rank", node, 0, world);
  require_value_in_range("own_weight", input.own_weight, 0, std::int64_t{1} << 20);
  require_value_in_range("node_weight", input.node_weight, 0, input.own_weight + 1);
  const std::int64_t most =
      (std::int64_t{1} << 62) / std::max<std::int64_t>(input.own_weight * parts.size(), 1);
  const std::int64_t total = plan_checks::total_of(input.bytes);
  if (total >= most) {
    throw InputError("bytes",
                     "are " + std::to_string(total) + " in total; multiplied by own_weight, " +
                         std::to_string(input.own_weight) + ", and the number of parts, " +
                         std::to_string(parts.size()) + ", they reach the limit of 2^62",
                     "Use a larger unit, which makes the numbers smaller");
  }
}

/// A matrix, initially zero.
class Table {
 public:
  Table(std::int64_t rows, std::int64_t columns)
      : columns_(static_cast<std::size_t>(columns)), numbers_(static_cast<std::size_t>(rows * columns), 0) {}

  [[nodiscard]] std::int64_t& at(std::int64_t row, std::int64_t column) {
    return numbers_[static_cast<std::size_t>(row) * columns_ + static_cast<std::size_t>(column)];
  }
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
    return numbers_[static_cast<std::size_t>(row) * columns_ + static_cast<std::size_t>(column)];
  }
  /// Returns the submatrix of the rows and columns with these numbers, in row-major order.
  [[nodiscard]] std::vector<std::int64_t> submatrix(std::span<const std::int64_t> numbers) const {
    std::vector<std::int64_t> values;
    values.reserve(numbers.size() * numbers.size());
    for (const std::int64_t row : numbers) {
      for (const std::int64_t column : numbers) values.push_back(at(row, column));
    }
    return values;
  }

 private:
  std::size_t columns_;
  std::vector<std::int64_t> numbers_;
};

/// Returns a table whose entry (p, r) is the value of part p at DP rank r. Bytes held by DP rank r's own
/// ranks are weighted by own_weight; other bytes on its nodes, by node_weight.
Table values_of(const Partition& parts, const PlacementInput& input) {
  const std::int64_t dp = parts.size();
  const auto num_nodes = input.node_of_rank.empty() ? 0 : std::ranges::max(input.node_of_rank) + 1;
  const std::vector<std::vector<int>> nodes = nodes_of_dp_ranks(input, dp);
  Table values(dp, dp);
  std::vector<std::int64_t> on_node(static_cast<std::size_t>(num_nodes), 0);
  // Below, bytes held by a DP rank's own ranks are counted with node_weight again, so subtract it here.
  const std::int64_t own_weight = input.own_weight - (num_nodes > 0 ? input.node_weight : 0);
  for (std::int64_t part = 0; part < dp; ++part) {
    std::ranges::fill(on_node, 0);
    const auto add_piece = [&](std::size_t piece) {
      const std::int64_t bytes = input.bytes[piece];
      const std::size_t owner = input.owners[piece].index();
      const int own = input.dp_of_rank[owner];
      if (num_nodes > 0) on_node[static_cast<std::size_t>(input.node_of_rank[owner])] += bytes;
      values.at(part, own) += bytes * own_weight;
    };
    if (input.first_pieces.empty()) {
      for (const Item item : parts[part]) add_piece(static_cast<std::size_t>(item));
    } else {
      for (const Item item : parts[part]) {
        const RowRange pieces = input.pieces_of(item);
        for (std::int64_t p = pieces.begin; p < pieces.end; ++p) add_piece(static_cast<std::size_t>(p));
      }
    }
    for (std::int64_t rank = 0; rank < dp; ++rank) {
      for (const int node : nodes[static_cast<std::size_t>(rank)])
        values.at(part, rank) += on_node[static_cast<std::size_t>(node)] * input.node_weight;
    }
  }
  return values;
}

/// Groups the DP ranks by speed. The ranks of a group are in ascending order.
std::vector<std::vector<std::int64_t>> ranks_by_speed(std::span<const std::int64_t> speeds, std::int64_t dp) {
  std::map<std::int64_t, std::vector<std::int64_t>> ranks;
  for (std::int64_t r = 0; r < dp; ++r)
    ranks[speeds.empty() ? 0 : speeds[static_cast<std::size_t>(r)]].push_back(r);
  std::vector<std::vector<std::int64_t>> groups;
  for (auto& entry : ranks) groups.push_back(std::move(entry.second));
  return groups;
}

/// Reassigns the parts of `ranks`, which have equal speeds, among these ranks if that increases
/// Placement::value.
void place_parts_on(std::span<const std::int64_t> ranks, const Table& values, Placement& placement) {
  constexpr std::int64_t max_exact = 256;
  const std::int64_t n = std::ssize(ranks);
  const Assignment found = (n <= max_exact ? best_assignment : good_assignment)(values.submatrix(ranks), n);
  std::int64_t identity = 0;
  for (const std::int64_t r : ranks) identity += values.at(r, r);
  placement.identity_value += identity;
  placement.value += std::max(found.value, identity);
  placement.upper_bound += found.upper_bound;
  if (found.value <= identity) return;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::int64_t rank = ranks[static_cast<std::size_t>(found.column_of_row[i])];
    placement.part_of_rank[static_cast<std::size_t>(rank)] = ranks[i];
  }
}

bool needs_placement(const PlanSettings& settings) {
  return settings.balance.placement == PlacementRule::locality && !settings.dp_of_rank.empty();
}

/// Determines which rank holds each sample, for placement. Owners outside the grid have no DP rank. Their
/// samples are placed as if each rank of the grid held an equal contiguous part of them, so the plan does not
/// depend on which of these owners reads them.
class Holders {
 public:
  /// Ranks 0..places-1 are in the grid.
  Holders(const LengthTable& table, std::size_t places) : places_(static_cast<std::int64_t>(places)) {
    for (const LengthEntry& entry : table.entries()) {
      if (entry.owner.index() < places) continue;
      first_.resize(std::max(first_.size(), entry.owner.index() - places + 2));
      ++first_[entry.owner.index() - places + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
  }

  [[nodiscard]] WorldRank holder_of(const LengthEntry& entry) const {
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
  // For each rank outside the grid: the number of samples of all earlier ranks outside the grid; then the
  // total.
  std::vector<std::int64_t> first_;
};

/// Lists which rank holds each piece of the units' tokens. Each segment is one piece, since all of its rows
/// are copied from the same owner.
class HeldPieces {
 public:
  HeldPieces(const LengthTable& table, const PackUnits& units, std::size_t places) {
    const Holders holders(table, places);
    const auto add = [&](EntryId entry, std::int64_t rows) {
      owners_.push_back(holders.holder_of(table[entry]));
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
  // First piece of each unit, then the total number of pieces; empty if each unit is one piece.
  std::vector<std::int64_t> first_of_unit_;
};

/// Returns the units of each DP rank over all mini-batches, as items for placement.
Partition concatenate_shares(const StepAssignment& assignment, int dp) {
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

/// Returns whether micro-batches are as placement expects them: already planned if the strategy plans those
/// of all DP ranks together (grids), and not yet planned if they are made from the shares of DP ranks.
bool are_micro_batches_as_expected(const StepProblem& problem, const StepAssignment& assignment) {
  const bool follows = strategy_of(problem.settings).shares_are_derived_from_units();
  return std::ranges::all_of(assignment.mini_batches, [&](const MiniBatchAssignment& mini_batch) {
    return mini_batch.joint.is_planned() != follows;
  });
}

void permute_shares(StepAssignment& assignment, std::span<const std::int64_t> part_of_rank) {
  if (std::ranges::is_sorted(part_of_rank)) return;
  for (MiniBatchAssignment& mini_batch : assignment.mini_batches) {
    mini_batch.units = IdGroups<UnitId>(reorder_parts(mini_batch.units.items(), part_of_rank));
    if (mini_batch.joint.is_planned()) mini_batch.joint.reorder_ranks(part_of_rank);
  }
}

}  // namespace

void require_valid_pieces(const PlacementInput& input) {
  require_entry_count("bytes", input.bytes.size(), std::ssize(input.owners));
  if (input.first_pieces.empty()) return;
  const std::span<const std::int64_t> first = input.first_pieces;
  if (first.front() == 0 && first.back() == std::ssize(input.owners) && std::ranges::is_sorted(first)) return;
  throw InputError("first_pieces", "must increase from 0 to the number of pieces with owners, " +
                                       std::to_string(input.owners.size()));
}

std::vector<std::vector<int>> nodes_of_dp_ranks(const PlacementInput& input, std::int64_t dp) {
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(dp));
  for (std::size_t rank = 0; rank < input.node_of_rank.size(); ++rank) {
    nodes[static_cast<std::size_t>(input.dp_of_rank[rank])].push_back(input.node_of_rank[rank]);
  }
  for (std::vector<int>& of_rank : nodes) {
    std::ranges::sort(of_rank);
    of_rank.erase(std::ranges::unique(of_rank).begin(), of_rank.end());
  }
  return nodes;
}

Placement best_placement(const Partition& parts, const PlacementInput& input) {
  require_valid_input(parts, input);
  const std::int64_t dp = parts.size();
  const Table values = values_of(parts, input);
  Placement placement;
  placement.part_of_rank.resize(static_cast<std::size_t>(dp));
  std::iota(placement.part_of_rank.begin(), placement.part_of_rank.end(), 0);
  for (const std::vector<std::int64_t>& ranks : ranks_by_speed(input.speeds, dp))
    place_parts_on(ranks, values, placement);
  return placement;
}

Partition reorder_parts(const Partition& parts, std::span<const std::int64_t> part_of_rank) {
  EVENKEEL_PRECONDITION(thorough, is_permutation(part_of_rank, parts.size()), part_of_rank.size(),
                        parts.size());
  std::vector<Item> items;
  items.reserve(static_cast<std::size_t>(parts.num_items()));
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t part : part_of_rank) {
    items.insert(items.end(), parts[part].begin(), parts[part].end());
    offsets.push_back(static_cast<std::int64_t>(items.size()));
  }
  return {std::move(items), std::move(offsets)};
}

void place_shares(const StepProblem& problem, StepAssignment& assignment) {
  const PlanSettings& settings = problem.settings;
  if (!needs_placement(settings)) return;
  EVENKEEL_PRECONDITION(cheap, are_micro_batches_as_expected(problem, assignment),
                        assignment.mini_batches.size());
  const HeldPieces pieces(problem.table, assignment.units, settings.dp_of_rank.size());
  const PlacementInput input = pieces.input(settings);
  permute_shares(assignment, best_placement(concatenate_shares(assignment, settings.dp), input).part_of_rank);
}

}  // namespace evenkeel
