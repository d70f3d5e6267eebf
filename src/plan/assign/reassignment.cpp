#include "plan/assign/reassignment.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "plan/placement/placement_nodes.hpp"

namespace evenkeel {
namespace {

/// Products of a cost, a speed and a tolerance.
__extension__ using Wide = __int128;

constexpr std::int64_t million = 1'000'000;

void require(bool holds, const char* what, const std::string& message) {
  if (!holds) throw InputError(what, message);
}

void check(const Partition& parts, std::span<const Cost> costs, const PlacementInput& input,
           const ReassignmentRules& rules) {
  const std::int64_t dp = parts.size();
  require_whole_pieces(input);
  require(input.num_items() == std::ssize(costs), "owners and bytes", "must have one entry for each cost");
  require(input.speeds.empty() || std::ssize(input.speeds) == dp, "speeds", "must be one for each part");
  require(std::ranges::all_of(input.speeds, [](std::int64_t speed) { return speed >= 1; }), "speeds",
          "must be above 0");
  require(input.node_of_rank.empty() || input.node_of_rank.size() == input.dp_of_rank.size(), "node_of_rank",
          "must be one for each rank");
  require(rules.tolerance >= 0 && rules.tolerance <= million, "tolerance", "must be from 0 to one million");
  for (const int of_rank : input.dp_of_rank)
    require(of_rank >= -1 && of_rank < dp, "dp_of_rank", std::to_string(of_rank) + " is no part");
  for (const WorldRank owner : input.owners) {
    require(owner.value() >= 0 && owner.index() < input.dp_of_rank.size(), "owners",
            std::to_string(owner.value()) + " is no rank");
  }
  for (const Item item : parts.items())
    require(item >= 0 && item < std::ssize(costs), "parts", std::to_string(item) + " is no item");
}

/// The most each part may cost.
std::vector<Cost> limits_of(std::span<const Cost> sums, std::span<const std::int64_t> speeds,
                            std::int64_t tolerance) {
  const auto speed_of = [&](std::size_t part) { return speeds.empty() ? std::int64_t{1} : speeds[part]; };
  std::size_t last = 0;
  for (std::size_t part = 1; part < sums.size(); ++part) {
    if (Wide{sums[part]} * speed_of(last) > Wide{sums[last]} * speed_of(part)) last = part;
  }
  std::vector<Cost> limits;
  for (std::size_t part = 0; part < sums.size(); ++part) {
    const Wide most = Wide{sums[last]} * (million + tolerance) * speed_of(part);
    constexpr Wide largest = (std::int64_t{1} << 62) - 1;
    limits.push_back(static_cast<Cost>(std::min(most / (Wide{million} * speed_of(last)), largest)));
  }
  return limits;
}

/// The part that holds most of an item's bytes (the first of equals), and how many; -1: none.
struct Home {
  std::int64_t part = -1;
  std::int64_t bytes = 0;
};

std::vector<Home> homes_of(const PlacementInput& input, std::int64_t parts) {
  std::vector<Home> homes(static_cast<std::size_t>(input.num_items()));
  std::vector<std::int64_t> held(static_cast<std::size_t>(parts), 0);
  for (std::size_t item = 0; item < homes.size(); ++item) {
    Home& home = homes[item];
    const RowRange pieces = input.pieces_of(static_cast<Item>(item));
    const auto part_of_piece = [&](std::int64_t p) {
      return input.dp_of_rank[input.owners[static_cast<std::size_t>(p)].index()];
    };
    for (std::int64_t p = pieces.begin; p < pieces.end; ++p) {
      const int part = part_of_piece(p);
      if (part < 0) continue;
      std::int64_t& bytes = held[static_cast<std::size_t>(part)];
      bytes += input.bytes[static_cast<std::size_t>(p)];
      if (home.part < 0 || bytes > home.bytes || (bytes == home.bytes && part < home.part))
        home = {part, bytes};
    }
    for (std::int64_t p = pieces.begin; p < pieces.end; ++p) {
      if (part_of_piece(p) >= 0) held[static_cast<std::size_t>(part_of_piece(p))] = 0;
    }
  }
  return homes;
}

class Reassignment {
 public:
  Reassignment(const Partition& parts, std::span<const Cost> costs, const PlacementInput& input,
               const ReassignmentRules& rules)
      : costs_(costs),
        input_(input),
        equal_counts_(rules.equal_counts),
        sums_(group_sums(parts, costs)),
        limits_(limits_of(sums_, input.speeds, rules.tolerance)),
        nodes_(nodes_of_dp_ranks(input, parts.size())),
        homes_(homes_of(input, parts.size())),
        part_of_(costs.size(), -1),
        away_(static_cast<std::size_t>(parts.size())) {
    for (std::int64_t part = 0; part < parts.size(); ++part) {
      for (const Item item : parts[part]) put(item, part);
    }
  }

  /// Tries every item that is away, the one with most bytes first. False when none could go home.
  bool pass() {
    std::vector<std::pair<std::int64_t, Item>> order;
    for (const auto& of_part : away_) {
      for (const auto& entry : of_part) order.emplace_back(-bytes(entry.second), entry.second);
    }
    std::ranges::sort(order);
    bool any = false;
    for (const auto& entry : order) any = bring_home(entry.second) || any;
    return any;
  }

  [[nodiscard]] Partition result() const {
    std::vector<std::vector<Item>> parts(away_.size());
    for (std::size_t item = 0; item < part_of_.size(); ++item) {
      if (part_of_[item] >= 0)
        parts[static_cast<std::size_t>(part_of_[item])].push_back(static_cast<Item>(item));
    }
    return Partition(parts);
  }

 private:
  using CostsAndItems = std::set<std::pair<Cost, Item>>;

  [[nodiscard]] Cost cost(Item item) const { return costs_[static_cast<std::size_t>(item)]; }
  [[nodiscard]] std::int64_t bytes(Item item) const { return homes_[static_cast<std::size_t>(item)].bytes; }
  [[nodiscard]] std::int64_t home(Item item) const { return homes_[static_cast<std::size_t>(item)].part; }
  [[nodiscard]] std::int64_t& part_of(Item item) { return part_of_[static_cast<std::size_t>(item)]; }
  [[nodiscard]] Cost room(std::int64_t part) const {
    return limits_[static_cast<std::size_t>(part)] - sums_[static_cast<std::size_t>(part)];
  }

  void put(Item item, std::int64_t part) {
    part_of(item) = part;
    if (home(item) == part) return;
    away_[static_cast<std::size_t>(part)].emplace(cost(item), item);
    away_from_[{part, home(item)}].emplace(cost(item), item);
  }

  void move(Item item, std::int64_t part) {
    const std::int64_t from = part_of(item);
    away_[static_cast<std::size_t>(from)].erase({cost(item), item});
    away_from_[{from, home(item)}].erase({cost(item), item});
    sums_[static_cast<std::size_t>(from)] -= cost(item);
    sums_[static_cast<std::size_t>(part)] += cost(item);
    put(item, part);
  }

  /// As best_placement counts it.
  [[nodiscard]] std::int64_t worth(Item item, std::int64_t part) const {
    const RowRange pieces = input_.pieces_of(item);
    std::int64_t sum = 0;
    for (std::int64_t p = pieces.begin; p < pieces.end; ++p)
      sum += input_.bytes[static_cast<std::size_t>(p)] * weight(static_cast<std::size_t>(p), part);
    return sum;
  }
  [[nodiscard]] std::int64_t weight(std::size_t piece, std::int64_t part) const {
    const std::size_t owner = input_.owners[piece].index();
    if (input_.dp_of_rank[owner] == part) return input_.own_weight;
    if (input_.node_of_rank.empty()) return 0;
    const std::vector<int>& nodes = nodes_[static_cast<std::size_t>(part)];
    return std::ranges::binary_search(nodes, input_.node_of_rank[owner]) ? input_.node_weight : 0;
  }
  [[nodiscard]] std::int64_t gain(Item item, std::int64_t from, std::int64_t to) const {
    return worth(item, to) - worth(item, from);
  }
  /// Bytes that stay on the part's own ranks.
  [[nodiscard]] std::int64_t kept(Item item, std::int64_t part) const {
    const RowRange pieces = input_.pieces_of(item);
    std::int64_t sum = 0;
    for (std::int64_t p = pieces.begin; p < pieces.end; ++p) {
      const auto piece = static_cast<std::size_t>(p);
      if (input_.dp_of_rank[input_.owners[piece].index()] == part) sum += input_.bytes[piece];
    }
    return sum;
  }
  /// Whether exchanging them has no more bytes travel, and is worth it.
  [[nodiscard]] bool gains_by_exchange(Item item, Item other, std::int64_t from, std::int64_t to) const {
    return kept(item, to) + kept(other, from) >= kept(item, from) + kept(other, to) &&
           gain(item, from, to) + gain(other, to, from) > 0;
  }

  /// Of the items that `item`'s home could give back, the one of nearest cost; of equals the costlier.
  [[nodiscard]] std::optional<Item> exchange_for(Item item, const CostsAndItems& items) {
    const std::int64_t from = part_of(item);
    const std::int64_t to = home(item);
    const auto fits = [&](Item other) {
      const Cost more = cost(item) - cost(other);
      return more <= room(to) && -more <= room(from) && gains_by_exchange(item, other, from, to);
    };
    const auto above = items.lower_bound({cost(item), -1});
    std::optional<Item> found;
    if (above != items.end() && fits(above->second)) found = above->second;
    if (above == items.begin()) return found;
    const Item below = std::prev(above)->second;
    const bool nearer = !found || cost(item) - cost(below) < cost(*found) - cost(item);
    return nearer && fits(below) ? below : found;
  }

  bool bring_home(Item item) {
    const std::int64_t from = part_of(item);
    const std::int64_t to = home(item);
    if (to < 0 || from == to || bytes(item) == 0) return false;
    std::optional<Item> other;
    const auto both_home = away_from_.find({to, from});
    if (both_home != away_from_.end()) other = exchange_for(item, both_home->second);
    if (!other) other = exchange_for(item, away_[static_cast<std::size_t>(to)]);
    if (!other && (equal_counts_ || cost(item) > room(to) || gain(item, from, to) <= 0)) return false;
    move(item, to);
    if (other) move(*other, from);
    return true;
  }

  std::span<const Cost> costs_;
  PlacementInput input_;
  bool equal_counts_;
  std::vector<Cost> sums_;
  std::vector<Cost> limits_;
  std::vector<std::vector<int>> nodes_;
  std::vector<Home> homes_;
  std::vector<std::int64_t> part_of_;
  std::vector<CostsAndItems> away_;  // from their owners, of each part
  std::map<std::pair<std::int64_t, std::int64_t>, CostsAndItems> away_from_;  // of each part, by owner
};

}  // namespace

Partition reassign_to_owners(const Partition& parts, std::span<const Cost> costs, const PlacementInput& input,
                             const ReassignmentRules& rules) {
  check(parts, costs, input, rules);
  Reassignment items(parts, costs, input, rules);
  constexpr int passes = 4;
  for (int pass = 0; pass < passes && items.pass(); ++pass) {
  }
  return items.result();
}

}  // namespace evenkeel
