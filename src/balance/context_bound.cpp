#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/context_giants.hpp"
#include "balance/context_levels.hpp"

namespace evenkeel {

namespace {

using balance_checks::ceil_div;

/// Companions of an item are looked for where the problem has so many items times levels at most.
constexpr std::int64_t most_companions = 1 << 18;

/// What an item adds at most to what hides communication, rounded up.
Cost hidden_by(const ContextWork& work, const CommunicationCost& cost) {
  return work.attention / 1000 * cost.overlap + ceil_div(work.attention % 1000 * cost.overlap, 1000);
}

/// What all items need together whatever their groups.
struct Needs {
  Cost work = 0;
  Cost longest = 0;         ///< of any item on its best group
  std::int64_t groups = 1;  ///< sizes of the groups of all micro-batches, summed
};

/// Whether no group aligns anything to less than a single rank does.
bool aligns_least_on_one_rank(const ContextLevels& levels) {
  const std::span<const std::int64_t> alignments = levels.problem().alignments;
  for (int level = 1; level < levels.count(); ++level)
    if (alignments[static_cast<std::size_t>(levels.size(level))] % alignments[1] != 0) return false;
  return true;
}

std::int64_t least_tokens(Item item, const ContextLevels& levels) {
  std::int64_t least = levels.aligned(item, 0);
  for (int level = 1; level < levels.count(); ++level) least = std::min(least, levels.aligned(item, level));
  return least;
}

Cost least_time(Item item, const ContextLevels& levels) {
  Cost least = levels.time(item, levels.lowest(item));
  for (int level = levels.lowest(item) + 1; level < levels.count(); ++level)
    if (levels.fits(item, level)) least = std::min(least, levels.time(item, level));
  return least;
}

Needs needs_of(const ContextLevels& levels) {
  const ContextProblem& problem = levels.problem();
  const bool is_least_on_one = aligns_least_on_one_rank(levels);
  Needs needs;
  std::int64_t tokens = 0;
  std::int64_t count = 0;
  for (Item item = 0; item < levels.num_items(); ++item) {
    needs.work += levels.work(item).work;
    count += problem.count_of(item);
    tokens += is_least_on_one ? levels.aligned(item, 0) : least_tokens(item, levels);
    if (levels.time(item, levels.lowest(item)) > needs.longest)
      needs.longest = std::max(needs.longest, least_time(item, levels));
  }
  if (tokens > 0) needs.groups = std::max(needs.groups, ceil_div(tokens, problem.limits.max_size));
  if (count > 0) needs.groups = std::max(needs.groups, ceil_div(count, problem.limits.max_items));
  return needs;
}

/// How much communication a token of others can hide, at most, that share a micro-batch with an item of a
/// level.
class Companions {
 public:
  explicit Companions(const ContextLevels& levels) {
    for (Item item = 0; item < levels.num_items(); ++item)
      by_tokens_.emplace_back(tokens(levels, item), item);
    std::ranges::sort(by_tokens_);
  }

  void look_at(const ContextLevels& levels, int level) {
    const CommunicationCost& cost = levels.problem().communication;
    most_.assign(by_tokens_.size() + 1, 0);
    for (std::size_t i = 0; i < by_tokens_.size(); ++i) {
      const auto& [tokens, item] = by_tokens_[i];
      const ContextWork& work = levels.work(item);
      const Cost spare = hidden_by(work, cost) - communication_of(work.rows, levels.size(level), cost);
      Cost a_token = 0;
      if (spare > 0) a_token = tokens == 0 ? spare : ceil_div(spare, tokens);
      most_[i + 1] = std::max(most_[i], a_token);
      if (spare > 0 && tokens == 0) without_tokens_ = true;
    }
  }

  /// Of companions of that many tokens together; -1: there is no limit.
  [[nodiscard]] Cost most_hidden(std::int64_t room) const {
    if (without_tokens_) return -1;
    const auto end = std::ranges::upper_bound(by_tokens_, std::pair{room + 1, Item{-1}});
    return most_[static_cast<std::size_t>(end - by_tokens_.begin())] * room;
  }

 private:
  static std::int64_t tokens(const ContextLevels& levels, Item item) {
    const ContextProblem& problem = levels.problem();
    const auto at = static_cast<std::size_t>(item);
    if (problem.offsets.empty()) return problem.lengths[at];
    std::int64_t sum = 0;
    for (std::int64_t i = problem.offsets[at]; i < problem.offsets[at + 1]; ++i)
      sum += problem.lengths[static_cast<std::size_t>(i)];
    return sum;
  }

  std::vector<std::pair<std::int64_t, Item>> by_tokens_;
  std::vector<Cost> most_;  ///< of the first i
  bool without_tokens_ = false;
};

/// Of an item on a level.
struct Place {
  Cost time = 0;
  Cost pooled = 0;  ///< its communication less all that its attention hides, maybe below 0
  Cost alone = 0;   ///< what of it no company hides; 0 or more
};

/// All items that may have to be on other levels than the lowest, or leave no time for another such item;
/// level by level.
class LongItems {
 public:
  LongItems(const ContextLevels& levels, Cost at_least) : levels_(&levels) {
    for (Item item = 0; item < levels.num_items(); ++item) {
      const bool is_long = levels.lowest(item) > 0 || levels.time(item, 0) > at_least / 2;
      (is_long ? items_ : short_items_).push_back(item);
    }
    for (const Item item : items_)
      for (int level = 0; level < levels.count(); ++level) places_.push_back(place(item, level));
    find_alone();
    find_pools();
  }

  /// The largest ones, in number at most those that are searched through.
  [[nodiscard]] ContextGiants giants() const {
    std::vector<std::size_t> order(items_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t count = std::min(order.size(), ContextGiants::most);
    const auto has_more_work = [&](std::size_t left, std::size_t right) {
      return std::pair(-levels_->work(items_[left]).work, left) <
             std::pair(-levels_->work(items_[right]).work, right);
    };
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), has_more_work);
    ContextGiants giants(*levels_);
    const auto levels = static_cast<std::size_t>(levels_->count());
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<ContextGiants::Place> places;
      for (const Place& place : std::span(places_).subspan(order[i] * levels, levels))
        places.push_back({place.time, levels_->work(items_[order[i]]).work + place.alone});
      giants.add(places);
    }
    return giants;
  }

  /// Work and exposed communication of all, if none may take longer than `limit`: exposed communication of
  /// groups from level `first_pooled` on counts in sum, that of smaller groups item by item.
  [[nodiscard]] Cost area(Cost limit, int first_pooled) const {
    Cost sum = pools_[static_cast<std::size_t>(first_pooled)];
    const auto levels = static_cast<std::size_t>(levels_->count());
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Cost least = -1;
      bool found = false;
      for (std::size_t level = 0; level < levels; ++level) {
        const Place& here = places_[i * levels + level];
        if (here.time < 0 || here.time > limit) continue;
        const Cost exposed = static_cast<int>(level) >= first_pooled ? here.pooled : here.alone;
        if (!found || exposed < least) least = exposed;
        found = true;
      }
      if (found) sum += least;
    }
    return sum;
  }

 private:
  [[nodiscard]] Place place(Item item, int level) const {
    if (!levels_->fits(item, level)) return {.time = -1};
    const CommunicationCost& cost = levels_->problem().communication;
    const ContextWork& work = levels_->work(item);
    Place here{.time = levels_->time(item, level)};
    if (level > 0)
      here.pooled = communication_of(work.rows, levels_->size(level), cost) - hidden_by(work, cost);
    return here;
  }

  /// An item of more than half of what a micro-batch may hold has no other such item as company, so what its
  /// company cannot hide is its own. Where nobody has attention to spare on a level, all of it is.
  void find_alone() {
    const auto levels = static_cast<std::size_t>(levels_->count());
    if (items_.empty() || levels_->num_items() * levels_->count() > most_companions) return;
    Companions companions(*levels_);
    for (int level = 1; level < levels_->count(); ++level) {
      companions.look_at(*levels_, level);
      const bool nobody_hides = companions.most_hidden(levels_->cap(level)) == 0;
      for (std::size_t i = 0; i < items_.size(); ++i) {
        Place& here = places_[i * levels + static_cast<std::size_t>(level)];
        if (here.time < 0 || here.pooled <= 0) continue;
        if (nobody_hides) here.alone = here.pooled;
        const std::int64_t room = levels_->cap(level) - levels_->aligned(items_[i], level);
        if (nobody_hides || room >= levels_->cap(level) - room) continue;
        const Cost hidden = companions.most_hidden(room);
        if (hidden >= 0) here.alone = std::max<Cost>(0, here.pooled - hidden);
      }
    }
  }

  /// What short items can add to pools of communication from each level on: 0 or less.
  void find_pools() {
    const CommunicationCost& cost = levels_->problem().communication;
    pools_.assign(static_cast<std::size_t>(levels_->count()) + 1, 0);
    Cost most_hidden = 0;  // by any row
    for (const Item item : short_items_) {
      const ContextWork& work = levels_->work(item);
      const Cost hidden = hidden_by(work, cost);
      if (work.rows == 0 && hidden > 0) has_work_without_rows_ = true;
      if (work.rows > 0) most_hidden = std::max(most_hidden, ceil_div(hidden, work.rows));
    }
    Cost per_row = -1;
    for (int first = levels_->count() - 1; first > 0; --first) {
      const Cost here = communication_of(1, levels_->size(first), cost);
      per_row = per_row < 0 ? here : std::min(per_row, here);
      if (per_row >= most_hidden && !has_work_without_rows_) continue;
      Cost sum = 0;
      for (const Item item : short_items_) {
        const ContextWork& work = levels_->work(item);
        sum += std::min<Cost>(0, per_row * work.rows - hidden_by(work, cost));
      }
      pools_[static_cast<std::size_t>(first)] = sum;
    }
  }

  const ContextLevels* levels_;
  std::vector<Item> items_;
  std::vector<Item> short_items_;
  std::vector<Place> places_;  ///< of each item all levels
  std::vector<Cost> pools_;
  bool has_work_without_rows_ = false;
};

/// Whether ranks * limit holds all there is to do.
class Feasibility {
 public:
  Feasibility(const ContextLevels& levels, const Needs& needs, Cost at_least)
      : levels_(&levels), needs_(needs), items_(levels, at_least), giants_(items_.giants()) {}

  [[nodiscard]] bool allows(Cost limit, int first_pooled) const {
    const CommunicationCost& cost = levels_->problem().communication;
    const Cost area = needs_.work + items_.area(limit, first_pooled);
    Cost groups = needs_.groups;
    if (limit > cost.overhead) groups = std::max(groups, ceil_div(area, limit - cost.overhead));
    const Cost all = area + groups * cost.overhead;
    const std::int64_t ranks = levels_->problem().ranks;
    if (ceil_div(all, ranks) > limit) return false;
    if (first_pooled < levels_->count()) return true;
    if (levels_->problem().sizes != ContextSizes::powers_of_two) return true;
    // What the giants may take is what they have in this sum, and what is left.
    return giants_.fit(limit, limit - cost.overhead, giants_.least_area(0, limit) + limit * ranks - all);
  }

  /// The least limit from `least` on that is allowed, or up to 1 / exactness less.
  [[nodiscard]] Cost least_allowed(Cost least, int first_pooled) const {
    if (allows(least, first_pooled)) return least;
    constexpr Cost exactness = 1 << 16;
    Cost below = least;
    Cost step = 1 + least / exactness;
    while (!allows(below + step, first_pooled)) {
      below += step;
      step *= 2;
    }
    Cost above = below + step;
    while (above - below > 1 + below / exactness) {
      const Cost middle = below + (above - below) / 2;
      (allows(middle, first_pooled) ? above : below) = middle;
    }
    return below + 1;
  }

 private:
  const ContextLevels* levels_;
  Needs needs_;
  LongItems items_;
  ContextGiants giants_;
};

}  // namespace

Cost lower_bound_on(const ContextLevels& levels) {
  const ContextProblem& problem = levels.problem();
  const Needs needs = needs_of(levels);
  Cost bound = std::max(needs.longest,
                        ceil_div(needs.work + needs.groups * problem.communication.overhead, problem.ranks));
  const Feasibility feasibility(levels, needs, bound);
  for (int first_pooled = levels.count(); first_pooled >= 1; --first_pooled)
    bound = feasibility.least_allowed(bound, first_pooled);
  return bound;
}

Cost context_lower_bound(const ContextProblem& problem) {
  return problem.items.empty() ? 0 : lower_bound_on(ContextLevels(problem));
}

}  // namespace evenkeel
