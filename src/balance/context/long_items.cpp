#include "balance/context/long_items.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "balance/checks.hpp"

namespace evenkeel::context {

namespace {

using balance_checks::ceil_div;

/// If the number of items times the number of levels is above this limit, compute_alone_communication() does
/// nothing, to save time.
constexpr std::int64_t max_companions = 1 << 18;

/// Returns the maximum amount of communication that the item's own attention can hide, rounded up.
Cost hidden_communication(const ContextWork& work, const CommunicationCost& cost) {
  return work.attention / 1000 * cost.overlap + ceil_div(work.attention % 1000 * cost.overlap, 1000);
}

/// Upper bounds on the communication that an item's companions, which are the other items in its micro-batch,
/// can hide per token, for groups of one level.
class Companions {
 public:
  explicit Companions(const Levels& levels) {
    for (Item item = 0; item < levels.num_items(); ++item)
      by_tokens_.emplace_back(num_tokens_of(levels, item), item);
    std::ranges::sort(by_tokens_);
  }

  void prepare_level(const Levels& levels, int level) {
    const CommunicationCost& cost = levels.problem().communication;
    most_.assign(by_tokens_.size() + 1, 0);
    for (std::size_t i = 0; i < by_tokens_.size(); ++i) {
      const auto& [tokens, item] = by_tokens_[i];
      const ContextWork& work = levels.work(item);
      const Cost spare =
          hidden_communication(work, cost) - communication_of(work.rows, levels.size(level), cost);
      Cost a_token = 0;
      if (spare > 0) a_token = tokens == 0 ? spare : ceil_div(spare, tokens);
      most_[i + 1] = std::max(most_[i], a_token);
      if (spare > 0 && tokens == 0) has_companion_without_tokens_ = true;
    }
  }

  /// Returns the maximum communication that companions with at most `room` tokens in total can hide; -1 if
  /// there is no limit.
  [[nodiscard]] Cost max_hidden_communication(std::int64_t room) const {
    if (has_companion_without_tokens_) return -1;
    const auto end = std::ranges::upper_bound(by_tokens_, std::pair{room + 1, Item{-1}});
    return most_[static_cast<std::size_t>(end - by_tokens_.begin())] * room;
  }

 private:
  static std::int64_t num_tokens_of(const Levels& levels, Item item) {
    const Problem& problem = levels.problem();
    const auto at = static_cast<std::size_t>(item);
    if (problem.offsets.empty()) return problem.lengths[at];
    std::int64_t sum = 0;
    for (std::int64_t i = problem.offsets[at]; i < problem.offsets[at + 1]; ++i)
      sum += problem.lengths[static_cast<std::size_t>(i)];
    return sum;
  }

  std::vector<std::pair<std::int64_t, Item>> by_tokens_;
  /// most_[i]: maximum communication per token that any of the first i items in by_tokens_ can hide for other
  /// items.
  std::vector<Cost> most_;
  bool has_companion_without_tokens_ = false;
};

}  // namespace

LeastTokens::LeastTokens(const Levels& levels) : levels_(&levels) {
  const std::span<const std::int64_t> alignments = levels.problem().alignments;
  for (int level = 1; level < levels.count(); ++level)
    if (alignments[static_cast<std::size_t>(levels.size(level))] % alignments[1] != 0)
      is_least_on_one_ = false;
}

std::int64_t LeastTokens::operator()(Item item) const {
  std::int64_t least = levels_->aligned_tokens(item, 0);
  for (int level = 1; level < levels_->count() && !is_least_on_one_; ++level)
    least = std::min(least, levels_->aligned_tokens(item, level));
  return least;
}

Cost min_time(Item item, const Levels& levels) {
  Cost least = levels.time(item, levels.lowest_level(item));
  for (int level = levels.lowest_level(item) + 1; level < levels.count(); ++level)
    if (levels.fits(item, level)) least = std::min(least, levels.time(item, level));
  return least;
}

LongItems::LongItems(const Levels& levels, Cost at_least) : levels_(&levels) {
  for (Item item = 0; item < levels.num_items(); ++item) {
    const bool is_long = levels.lowest_level(item) > 0 || levels.time(item, 0) > at_least / 2;
    (is_long ? items_ : short_items_).push_back(item);
  }
  for (const Item item : items_)
    for (int level = 0; level < levels.count(); ++level) places_.push_back(make_place(item, level));
  compute_alone_communication();
  compute_pools();
}

Giants LongItems::giants() const {
  std::vector<std::size_t> order(items_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t count = std::min(order.size(), Giants::most);
  const auto has_more_work = [&](std::size_t left, std::size_t right) {
    return std::pair(-levels_->work(items_[left]).work, left) <
           std::pair(-levels_->work(items_[right]).work, right);
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), has_more_work);
  Giants giants(*levels_);
  const auto levels = static_cast<std::size_t>(levels_->count());
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Giants::Place> places;
    for (const Place& place : std::span(places_).subspan(order[i] * levels, levels))
      places.push_back({place.time, levels_->work(items_[order[i]]).work + place.alone + place.wasted});
    giants.add(places);
  }
  return giants;
}

Cost LongItems::min_extra_area(Cost limit, int first_pooled) const {
  Cost sum = pools_[static_cast<std::size_t>(first_pooled)];
  const auto levels = static_cast<std::size_t>(levels_->count());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Cost least = -1;
    bool found = false;
    for (std::size_t level = 0; level < levels; ++level) {
      const Place& here = places_[i * levels + level];
      if (here.time < 0 || here.time > limit) continue;
      const Cost exposed = static_cast<int>(level) >= first_pooled ? here.pooled : here.alone;
      if (!found || exposed + here.wasted < least) least = exposed + here.wasted;
      found = true;
    }
    if (found) sum += least;
  }
  return sum;
}

LongItems::Place LongItems::make_place(Item item, int level) const {
  if (!levels_->fits(item, level)) return {.time = -1};
  const CommunicationCost& cost = levels_->problem().communication;
  const ContextWork& work = levels_->work(item);
  Place here{.time = levels_->time(item, level), .wasted = levels_->speeds().wasted_work(work.work, level)};
  if (level > 0)
    here.pooled = communication_of(work.rows, levels_->size(level), cost) - hidden_communication(work, cost);
  return here;
}

/// Computes Place::alone, the part of an item's communication that other items cannot hide. It stays 0 except
/// in two cases:
/// - The item takes more than half of a micro-batch's cap. No micro-batch can contain two such items, so this
///   communication is not counted twice.
/// - No possible companion of the item can hide any communication.
void LongItems::compute_alone_communication() {
  const auto levels = static_cast<std::size_t>(levels_->count());
  if (items_.empty() || levels_->num_items() * levels_->count() > max_companions) return;
  Companions companions(*levels_);
  for (int level = 1; level < levels_->count(); ++level) {
    companions.prepare_level(*levels_, level);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Place& here = places_[i * levels + static_cast<std::size_t>(level)];
      if (here.time < 0 || here.pooled <= 0) continue;
      const std::int64_t room = levels_->cap(level) - levels_->aligned_tokens(items_[i], level);
      const Cost hidden = companions.max_hidden_communication(room);
      const bool is_above_half = room < levels_->cap(level) - room;
      if (hidden == 0 || (is_above_half && hidden > 0)) here.alone = std::max<Cost>(0, here.pooled - hidden);
    }
  }
}

void LongItems::compute_pools() {
  const CommunicationCost& cost = levels_->problem().communication;
  pools_.assign(static_cast<std::size_t>(levels_->count()) + 1, 0);
  Cost max_hidden = 0;  // maximum communication per row that any of the short items can hide
  for (const Item item : short_items_) {
    const ContextWork& work = levels_->work(item);
    const Cost hidden = hidden_communication(work, cost);
    if (work.rows == 0 && hidden > 0) has_work_without_rows_ = true;
    if (work.rows > 0) max_hidden = std::max(max_hidden, ceil_div(hidden, work.rows));
  }
  Cost per_row = -1;
  for (int first = levels_->count() - 1; first > 0; --first) {
    const Cost here = communication_of(1, levels_->size(first), cost);
    per_row = per_row < 0 ? here : std::min(per_row, here);
    if (per_row >= max_hidden && !has_work_without_rows_) continue;
    Cost sum = 0;
    for (const Item item : short_items_) {
      const ContextWork& work = levels_->work(item);
      sum += std::min<Cost>(0, per_row * work.rows - hidden_communication(work, cost));
    }
    pools_[static_cast<std::size_t>(first)] = sum;
  }
}

}  // namespace evenkeel::context
