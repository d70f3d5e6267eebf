#include "balance/context/giants.hpp"

#include <algorithm>
#include <numeric>

namespace evenkeel::context {

namespace {

constexpr std::int64_t max_steps = 1 << 15;

}  // namespace

Cost Giants::min_area(std::size_t from, Cost limit) const {
  Cost sum = 0;
  for (std::size_t i = from; i < giants_.size(); ++i) {
    Cost least = -1;
    for (const Place& place : giants_[i])
      if (place.time >= 0 && place.time <= limit && (least < 0 || place.area < least)) least = place.area;
    sum += std::max<Cost>(least, 0);
  }
  return sum;
}

bool Giants::can_fit(Cost limit, Cost busy, Cost area) const {
  std::vector<int> chosen;
  std::int64_t steps = max_steps;
  return can_choose_levels(chosen, limit, busy, area, steps);
}

bool Giants::can_choose_levels(std::vector<int>& chosen, Cost limit, Cost busy, Cost area,
                               std::int64_t& steps) const {
  if (--steps < 0) return true;
  const std::size_t i = chosen.size();
  if (min_area(i, limit) > area) return false;
  if (i == giants_.size()) return can_place_in_blocks(chosen, busy, steps);
  for (int level = 0; level < levels_->count(); ++level) {
    const Place& place = giants_[i][static_cast<std::size_t>(level)];
    if (place.time < 0 || place.time > limit || place.area > area) continue;
    chosen.push_back(level);
    if (can_choose_levels(chosen, limit, busy, area - place.area, steps)) return true;
    chosen.pop_back();
  }
  return false;
}

bool Giants::can_place_in_blocks(const std::vector<int>& chosen, Cost busy, std::int64_t& steps) const {
  std::vector<std::size_t> order(chosen.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t left, std::size_t right) { return chosen[left] > chosen[right]; });
  const int top = levels_->count() - 1;
  return can_place_in_runs(order, chosen, top, {{.height = 0, .blocks = levels_->num_blocks(top)}}, busy,
                           steps);
}

std::vector<Giants::Run> Giants::split_to_level(const std::vector<Run>& runs, int from, int level) const {
  std::vector<Run> result = runs;
  std::int64_t blocks = 0;
  for (Run& run : result) {
    run.blocks <<= from - level;
    blocks += run.blocks;
  }
  // If the number of ranks is not a multiple of the larger block size, the ranks after the last larger block
  // form further blocks of the smaller size.
  if (levels_->num_blocks(level) > blocks)
    result.push_back({.height = 0, .blocks = levels_->num_blocks(level) - blocks});
  return result;
}

bool Giants::can_place_in_runs(std::span<const std::size_t> order, const std::vector<int>& chosen, int level,
                               const std::vector<Run>& runs, Cost busy, std::int64_t& steps) const {
  if (--steps < 0) return true;
  if (order.empty()) return true;
  const std::size_t giant = order.front();
  const int own = chosen[giant];
  const std::vector<Run> here = split_to_level(runs, level, own);
  const Cost time = giants_[giant][static_cast<std::size_t>(own)].area / levels_->size(own);
  for (std::size_t r = 0; r < here.size(); ++r) {
    if (here[r].blocks == 0 || here[r].height + time > busy) continue;
    std::vector<Run> next = here;
    --next[r].blocks;
    next.push_back({.height = here[r].height + time, .blocks = 1});
    if (can_place_in_runs(order.subspan(1), chosen, own, next, busy, steps)) return true;
  }
  return false;
}

}  // namespace evenkeel::context
