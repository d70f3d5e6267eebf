#include "bound/sets.hpp"

#include <algorithm>

namespace evenkeel::context {

namespace {

/// Items that are placed to find room for a set.
constexpr std::int64_t most_places_tried = 1 << 10;
/// Least heights are told apart to 1 / so much.
constexpr Cost height_exactness = 2048;

bool set_has(std::size_t set, std::size_t item) {
  return (set >> item & 1) != 0;
}

}  // namespace

std::vector<Cost> WaveSets::least_heights(Cost highest) const {
  std::vector<Cost> heights(std::size_t{1} << items_.size(), 0);
  for (std::size_t set = 1; set < heights.size(); ++set) {
    Cost least = 0;
    for (std::size_t item = 0; item < items_.size(); ++item)
      if (set_has(set, item)) least = std::max(least, heights[set & ~(std::size_t{1} << item)]);
    heights[set] = least_height(set, least, highest);
  }
  return heights;
}

/// Where it is known that no wave below `least` holds the set.
Cost WaveSets::least_height(std::size_t set, Cost least, Cost highest) const {
  if (least >= highest || fits(set, least)) return least;
  Cost below = least;
  Cost step = 1 + least / 64;
  while (below + step < highest && !fits(set, below + step)) {
    below += step;
    step *= 2;
  }
  Cost above = std::min(highest, below + step);
  while (above - below > 1 + below / height_exactness) {
    const Cost middle = below + (above - below) / 2;
    (fits(set, middle) ? above : below) = middle;
  }
  return below + 1;
}

bool WaveSets::fits(std::size_t set, Cost height) const {
  Wave wave{
      .height = height, .free = levels_->problem().ranks, .groups = {}, .places_left = most_places_tried};
  return place_from(0, set, wave);
}

bool WaveSets::place_from(std::size_t item, std::size_t set, Wave& wave) const {
  while (item < items_.size() && !set_has(set, item)) ++item;
  if (item == items_.size() || --wave.places_left < 0) return true;
  return join_groups(item, set, wave) || open_groups(item, set, wave);
}

bool WaveSets::join_groups(std::size_t item, std::size_t set, Wave& wave) const {
  const Cost busy = wave.height - levels_->problem().communication.overhead;
  for (std::size_t g = 0; g < wave.groups.size(); ++g) {
    const Group before = wave.groups[g];
    const auto level = static_cast<int>(before.level);
    const Place& place = items_[item][before.level];
    if (place.time < 0 || place.time > wave.height) continue;
    if (before.area + place.area > levels_->size(level) * busy) continue;
    if (place.tokens > levels_->cap(level) - before.tokens) continue;
    wave.groups[g] = {before.level, before.area + place.area, before.tokens + place.tokens};
    const bool holds_all = place_from(item + 1, set, wave);
    wave.groups[g] = before;
    if (holds_all) return true;
  }
  return false;
}

bool WaveSets::open_groups(std::size_t item, std::size_t set, Wave& wave) const {
  for (std::size_t level = 0; level < items_[item].size(); ++level) {
    const std::int64_t size = levels_->size(static_cast<int>(level));
    const Place& place = items_[item][level];
    if (size > wave.free) return false;
    if (place.time < 0 || place.time > wave.height) continue;
    wave.groups.push_back({level, place.area, place.tokens});
    wave.free -= size;
    const bool holds_all = place_from(item + 1, set, wave);
    wave.free += size;
    wave.groups.pop_back();
    if (holds_all) return true;
  }
  return false;
}

Cost cheapest_sharing_out(const std::vector<Cost>& costs) {
  std::vector<Cost> least(costs.size(), 0);
  for (std::size_t all = 1; all < costs.size(); ++all) {
    const std::size_t first = all & (~all + 1);
    least[all] = costs[all];
    for (std::size_t part = (all - 1) & all; part != 0; part = (part - 1) & all)
      if ((part & first) != 0) least[all] = std::min(least[all], costs[part] + least[all & ~part]);
  }
  return least.back();
}

}  // namespace evenkeel::context
