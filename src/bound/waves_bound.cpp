#include "bound/waves_bound.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/context/giants.hpp"
#include "balance/context/levels.hpp"
#include "balance/context/long_items.hpp"
#include "bound/heights.hpp"
#include "bound/sets.hpp"
#include "cost/sum_limit.hpp"

namespace evenkeel::context {

namespace {

using balance_checks::ceil_div;

/// Prices of a token that are tried.
constexpr std::int64_t most_prices = 16;
/// Items whose work by token is looked at to choose them.
constexpr std::int64_t most_sampled = 4096;
/// Giants at most.
constexpr std::size_t most_giants = 256;
/// Heights of the highest wave are told apart to 1 / so much.
constexpr Cost exactness = 512;

/// An item that no wave that ends before `least` can hold.
struct Giant {
  Item item = 0;
  Cost least = 0;
  std::int64_t tokens = 0;
  std::span<const LongItems::Place> places{};
};

/// What the tokens of a wave are worth at most.
struct Price {
  Cost per_token = 0;
  Cost full = 0;   ///< of what a rank holds
  Cost value = 0;  ///< of all items
};

/// docs/bounds.md has the proof.
class WavesBound {
 public:
  WavesBound(const Levels& levels, const LongItems& long_items)
      : levels_(&levels), least_tokens_(levels), long_(&long_items) {
    for (Item item = 0; item < levels.num_items(); ++item) tokens_ += least_tokens_(item);
    find_giants();
    find_prices();
  }

  /// The largest that is found, or `bound` where that is larger.
  [[nodiscard]] Cost at_least(Cost bound) {
    if (giants_.empty()) return bound;
    highest_ = 2 * std::max(bound, giants_.front().least);
    // Sums over the sets that the first giants may be shared out among stay within 64 bits.
    if (highest_ > sum_limit / 128 / levels_->problem().ranks) return bound;
    for (std::size_t count = 1; count <= giants_.size(); count += 1 + count / 4)
      for (const Price& price : prices_) bound = std::max(bound, least_end(count, price, bound));
    return std::max(bound, end_of_sets());
  }

 private:
  void find_giants() {
    for (std::size_t i = 0; i < long_->items().size(); ++i) {
      const Item item = long_->items()[i];
      giants_.push_back({item, least_time(item, *levels_), least_tokens_(item), long_->places(i)});
    }
    std::ranges::sort(giants_, [](const Giant& left, const Giant& right) {
      return std::pair(-left.least, left.item) < std::pair(-right.least, right.item);
    });
    if (giants_.size() > most_giants) giants_.resize(most_giants);
  }

  void find_prices() {
    for (const Cost per_token : sampled_densities()) {
      if (per_token > sum_limit / 4 / cap()) continue;
      Price price{.per_token = per_token, .full = per_token * cap()};
      for (Item item = 0; item < levels_->num_items(); ++item)
        price.value += value(item, least_tokens_(item), price);
      prices_.push_back(price);
    }
  }

  /// Nothing; and some of the works by token that items have, evenly chosen, and the largest.
  [[nodiscard]] std::vector<Cost> sampled_densities() const {
    std::vector<std::pair<Cost, std::int64_t>> densities;
    std::int64_t tokens = 0;
    const std::int64_t step = 1 + levels_->num_items() / most_sampled;
    for (Item item = 0; item < levels_->num_items(); item += static_cast<Item>(step)) {
      const std::int64_t own = least_tokens_(item);
      if (own == 0) continue;
      densities.emplace_back(levels_->work(item).work / own, own);
      tokens += own;
    }
    std::ranges::sort(densities);
    std::vector<Cost> chosen{0};
    std::int64_t next = 0;
    std::int64_t sum = 0;
    for (const auto& [density, own] : densities) {
      sum += own;
      if (sum < next && &density != &densities.back().first) continue;
      if (chosen.back() != density) chosen.push_back(density);
      next += tokens / most_prices + 1;
    }
    return chosen;
  }

  /// Of the item: its work, but no more than its tokens at this price.
  [[nodiscard]] Cost value(Item item, std::int64_t tokens, const Price& price) const {
    if (tokens == 0) return 0;
    const Cost work = levels_->work(item).work;
    return work / tokens < price.per_token ? work : price.per_token * tokens;
  }

  /// What a rank of a wave of this height has no use for, whatever it runs that is no giant.
  [[nodiscard]] Cost base(Cost height, const Price& price) const {
    return std::max(height - price.full, levels_->problem().communication.overhead);
  }

  /// What the giant takes of its group beside that at least, which is not below `least`, in a wave of at most
  /// `height`.
  [[nodiscard]] Cost charge(const Giant& giant, Cost base, Cost height, Cost least) const {
    Cost best = -1;
    for (int level = 0; level < levels_->count(); ++level) {
      const LongItems::Place& place = giant.places[static_cast<std::size_t>(level)];
      if (place.time < 0 || place.time > height) continue;
      const std::int64_t size = levels_->size(level);
      const Cost area = levels_->work(giant.item).work + place.alone;
      const Cost a_rank = area / size + levels_->problem().communication.overhead - base;
      const Cost here = a_rank > 0 ? std::max(least, a_rank * size) : least;
      if (best < 0 || here < best) best = here;
      if (best == least) break;
    }
    return std::max(best, least);
  }

  /// Of the giant in a wave of at most `height`.
  [[nodiscard]] Cost least_area(const Giant& giant, Cost height) const {
    Cost least = -1;
    for (const LongItems::Place& place : giant.places)
      if (place.time >= 0 && place.time <= height && (least < 0 || place.alone < least)) least = place.alone;
    return levels_->work(giant.item).work + std::max<Cost>(0, least);
  }

  /// What is looked at for the first giants and a price.
  struct Trial {
    std::size_t count = 0;
    const Price* price = nullptr;
    Cost value = 0;   ///< of all other items
    Cost enough = 0;  ///< less is not worth while
    Cost best = 0;    ///< the least end at all heights so far
  };

  /// No end is before this with the first `count` giants and this price, or it is at most `enough`.
  [[nodiscard]] Cost least_end(std::size_t count, const Price& price, Cost enough) {
    Trial trial{.count = count, .price = &price, .value = price.value, .enough = enough};
    for (const Giant& giant : giants(count)) trial.value -= value(giant.item, giant.tokens, price);
    trial.best = base(highest_, price) + trial.value / levels_->problem().ranks;
    look_into(range(giants_.front().least, highest_, trial), trial);
    return trial.best;
  }

  /// Heights of the highest wave, and what no end is before where it is one of them.
  struct Range {
    Cost from = 0;
    Cost to = 0;
    Cost end = 0;
  };

  [[nodiscard]] Range range(Cost from, Cost to, const Trial& trial) {
    const Cost rest = (trial.value + charges(trial, to)) / levels_->problem().ranks;
    return {from, to, base(from, *trial.price) + other_waves(trial, to) + rest};
  }

  /// Halves them, the more promising half first, until the end is told exactly enough.
  void look_into(const Range& heights, Trial& trial) {
    if (trial.best <= trial.enough || heights.end >= trial.best) return;
    if (heights.to - heights.from <= heights.from / exactness + 1) {
      trial.best = heights.end;
      return;
    }
    const Cost middle = heights.from + (heights.to - heights.from) / 2;
    Range first = range(heights.from, middle, trial);
    Range second = range(middle, heights.to, trial);
    if (second.end < first.end) std::swap(first, second);
    look_into(first, trial);
    look_into(second, trial);
  }

  /// No end is before this, whichever of the first giants share waves.
  [[nodiscard]] Cost end_of_sets() const {
    WaveSets sets(*levels_);
    const std::span<const Giant> few = giants(std::min(giants_.size(), WaveSets::most));
    for (const Giant& giant : few) sets.add(places_in_sets(giant));
    const std::vector<Cost> heights = sets.least_heights(highest_);
    Cost bound = 0;
    for (const Price& price : prices_) bound = std::max(bound, end_of_sets(few, heights, price));
    return std::min(bound, highest_);  // no higher waves were looked at
  }

  [[nodiscard]] std::vector<WaveSets::Place> places_in_sets(const Giant& giant) const {
    std::vector<WaveSets::Place> places;
    for (int level = 0; level < levels_->count(); ++level) {
      const LongItems::Place& place = giant.places[static_cast<std::size_t>(level)];
      places.push_back({.time = place.time,
                        .area = levels_->work(giant.item).work + place.alone,
                        .tokens = levels_->aligned(giant.item, level)});
    }
    return places;
  }

  [[nodiscard]] Cost end_of_sets(std::span<const Giant> few, std::span<const Cost> heights,
                                 const Price& price) const {
    const Problem& problem = levels_->problem();
    Cost others = price.value;
    for (const Giant& giant : few) others -= value(giant.item, giant.tokens, price);
    std::vector<Cost> costs(heights.size(), 0);
    for (std::size_t set = 1; set < costs.size(); ++set)
      costs[set] = cost_of_set(few, set, heights[set], price);
    Cost least = cheapest_sharing_out(costs);
    // Or all waves that tokens need have an overhead, and those of giants come on top of it.
    const Cost overhead = problem.communication.overhead * problem.ranks;
    for (Cost& cost : costs) cost -= overhead;
    least = std::max(least, cheapest_sharing_out(costs) + overhead * least_waves());
    return (others + least) / problem.ranks;
  }

  /// What a wave with these giants takes of all ranks for them, or has no use for; at any height from `least`
  /// on, which are looked at piece by piece.
  [[nodiscard]] Cost cost_of_set(std::span<const Giant> few, std::size_t set, Cost least,
                                 const Price& price) const {
    Cost values = 0;
    std::vector<std::pair<const Giant*, Cost>> chosen;
    for (std::size_t i = 0; i < few.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      chosen.emplace_back(&few[i], value(few[i].item, few[i].tokens, price));
      values += chosen.back().second;
    }
    Cost best = -1;
    for (Cost from = least; from <= highest_ || best < 0;) {
      const Cost to = from + from / 32 + 1;
      const Cost rank = base(from, price);
      Cost cost = rank * levels_->problem().ranks;
      if (best >= 0 && cost + values >= best) break;
      for (const auto& [giant, own] : chosen) cost += charge(*giant, rank, to, own);
      if (best < 0 || cost < best) best = cost;
      from = to;
    }
    return best;
  }

  /// That all tokens need.
  [[nodiscard]] std::int64_t least_waves() const {
    return ceil_div(ceil_div(tokens_, levels_->problem().ranks), cap());
  }

  [[nodiscard]] std::span<const Giant> giants(std::size_t count) const {
    return std::span(giants_).first(count);
  }

  [[nodiscard]] Cost charges(const Trial& trial, Cost height) const {
    const Cost rank = base(height, *trial.price);
    Cost sum = 0;
    for (const Giant& giant : giants(trial.count))
      sum += charge(giant, rank, height, value(giant.item, giant.tokens, *trial.price));
    return sum;
  }

  /// What a rank has no use for in waves other than the highest.
  [[nodiscard]] Cost other_waves(const Trial& trial, Cost height) {
    const Problem& problem = levels_->problem();
    std::int64_t waves = 1;
    Cost sum = 0;
    for (const std::size_t giant : openers(height)) {
      if (giant >= trial.count) break;
      sum += base(giants_[giant].least, *trial.price);
      ++waves;
    }
    return sum + std::max<std::int64_t>(0, least_waves() - waves) * problem.communication.overhead;
  }

  /// Giants, ascending: those up to each of them need one wave more than those before, where no wave is
  /// higher than `height`.
  const std::vector<std::size_t>& openers(Cost height) {
    const auto [entry, is_new] = openers_.try_emplace(height);
    if (is_new) entry->second = find_openers(height);
    return entry->second;
  }

  [[nodiscard]] std::vector<std::size_t> find_openers(Cost height) const {
    const std::int64_t ranks = levels_->problem().ranks;
    const Cost busy = std::max<Cost>(1, height - levels_->problem().communication.overhead);
    std::vector<std::size_t> openers;
    Cost area = 0;
    std::int64_t tokens = 0;
    Giants together(*levels_);
    for (std::size_t i = 0; i < giants_.size(); ++i) {
      area += least_area(giants_[i], height);
      tokens += giants_[i].tokens;
      std::int64_t waves =
          std::max(ceil_div(ceil_div(area, ranks), busy), ceil_div(ceil_div(tokens, ranks), cap()));
      if (waves <= 1 && openers.empty() && i < Giants::most) {
        add(giants_[i], together);
        if (!together.fit(height, busy, busy * ranks)) waves = 2;
      }
      while (std::ssize(openers) + 1 < waves) openers.push_back(i);
    }
    return openers;
  }

  void add(const Giant& giant, Giants& giants) const {
    std::vector<Giants::Place> places;
    for (const LongItems::Place& place : giant.places)
      places.push_back({place.time, levels_->work(giant.item).work + place.alone});
    giants.add(places);
  }

  /// Tokens that a rank holds at most.
  [[nodiscard]] std::int64_t cap() const {
    return std::max<std::int64_t>(1, std::min(levels_->problem().limits.max_size, tokens_));
  }

  const Levels* levels_;
  LeastTokens least_tokens_;
  const LongItems* long_;
  std::int64_t tokens_ = 0;    ///< of all items
  std::vector<Giant> giants_;  ///< by falling least time
  std::vector<Price> prices_;
  Cost highest_ = 0;  ///< heights of waves that are looked at
  std::map<Cost, std::vector<std::size_t>> openers_;
};

}  // namespace

Cost waves_lower_bound(const Problem& problem) {
  if (problem.items.empty()) return 0;
  const Levels levels(problem);
  const Cost bound = lower_bound_on(levels);
  if (levels.speeds().differ()) return bound;  // what follows takes all ranks of a wave for equally fast
  const LongItems long_items(levels, bound);
  return bound_over_wave_heights(levels, long_items, WavesBound(levels, long_items).at_least(bound));
}

}  // namespace evenkeel::context
