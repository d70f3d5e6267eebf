#include "bound/heights.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "bound/prices.hpp"
#include "cost/sum_limit.hpp"

namespace evenkeel::context {

namespace {

/// Changes of prices in all, of each wave.
constexpr std::int64_t most_changes = 24000;
/// Of those that come out of others.
constexpr int changes_at_first = 16;
/// Of those that are told apart exactly enough, as long as that gains anything.
constexpr int changes_at_last = 64;
constexpr int most_age = 512;
constexpr Cost least_gain = 4096;  ///< 1 / so much
/// Heights are told apart to 1 / so much; whether there are further waves is asked from 1 / so much on.
constexpr Cost height_steps = 100;
constexpr Cost coarse_height_steps = 5;

/// Some heights of the highest waves, and when schedules with these end at least.
struct Heights {
  WavePrices::Waves waves;
  std::vector<WavePrice> prices;
  Cost end = 0;
  std::size_t first_outside = 0;
  int age = 0;
  std::int64_t number = 0;

  [[nodiscard]] WavePrices::Height& widest() {
    return *std::ranges::max_element(waves.heights, {}, [](const auto& each) { return each.to - each.from; });
  }
  [[nodiscard]] bool are_told_to(Cost part) const {
    return std::ranges::all_of(waves.heights,
                               [&](const auto& each) { return each.to - each.from <= each.from / part; });
  }
};

struct EndsLater {
  bool operator()(const Heights& left, const Heights& right) const {
    return std::pair(left.end, left.number) > std::pair(right.end, right.number);
  }
};

/// Looks at the heights that may end first, again and again.
class HeightSearch {
 public:
  /// With the first items of the prices as giants.
  HeightSearch(const WavePrices& prices, std::size_t giants, Cost highest, std::int64_t& changes_left)
      : prices_(&prices), giants_(giants), highest_(highest), changes_left_(&changes_left) {}

  [[nodiscard]] Cost least_end() {
    const WavePrices::Height first{prices_->least_time(0), highest_};
    Heights all;
    all.waves.heights.push_back(first);
    all.prices.push_back(prices_->first_price(first));
    keep(std::move(all), changes_at_first);
    while (!queue_.empty() && *changes_left_ > 0 && look_closer()) {
    }
    return queue_.empty() ? highest_ : std::min(highest_, queue_.top().end);
  }

 private:
  /// Of those that end first. False: they are told apart exactly enough.
  bool look_closer() {
    Heights heights = queue_.top();
    const bool may_go_on = heights.waves.giants == 0 && heights.first_outside < giants_;
    const bool are_exact = heights.are_told_to(height_steps);
    if (are_exact && !may_go_on) {
      if (heights.age >= most_age) return false;
      queue_.pop();
      improve(std::move(heights));
      return true;
    }
    queue_.pop();
    if (may_go_on && heights.are_told_to(coarse_height_steps))
      ask_for_more_waves(std::move(heights));
    else
      halve(std::move(heights));
    return true;
  }

  void improve(Heights heights) {
    const Cost before = heights.end;
    const auto gains_little = [&](const Heights& after) { return after.end - before <= before / least_gain; };
    keep(std::move(heights), changes_at_last, gains_little);
  }

  /// Either no other wave holds giants, or one more is as high as the least of them takes.
  void ask_for_more_waves(Heights heights) {
    Heights more = heights;
    heights.waves.giants = giants_;
    heights.age = 0;
    keep(std::move(heights), changes_at_first);
    const WavePrices::Height next{prices_->least_time(giants_ - 1), more.waves.heights.back().to};
    if (next.from > next.to) return;
    more.waves.heights.push_back(next);
    more.prices.push_back(prices_->first_price(next));
    more.age = 0;
    keep(std::move(more), changes_at_first);
  }

  void halve(Heights heights) {
    WavePrices::Height& widest = heights.widest();
    const auto wave = static_cast<std::size_t>(&widest - heights.waves.heights.data());
    const auto middle = static_cast<Cost>(std::sqrt(static_cast<double>(widest.from)) *
                                          std::sqrt(static_cast<double>(widest.to)));
    const Cost border = std::clamp(middle, widest.from, widest.to - 1);
    heights.age = std::min(heights.age, changes_at_last);
    Heights low = heights;
    for (std::size_t w = wave; w < low.waves.heights.size(); ++w)
      low.waves.heights[w].to = std::min(low.waves.heights[w].to, border);
    keep(std::move(low), changes_at_first);
    for (std::size_t w = 0; w <= wave; ++w)
      heights.waves.heights[w].from = std::max(heights.waves.heights[w].from, border + 1);
    keep(std::move(heights), changes_at_first);
  }

  void keep(Heights heights, int changes) {
    keep(std::move(heights), changes, [](const Heights&) { return false; });
  }

  /// Unless there are no such heights. Those that are finished get no younger.
  template <typename IsFinished>
  void keep(Heights heights, int changes, IsFinished is_finished) {
    for (const WavePrices::Height& each : heights.waves.heights)
      if (each.from > each.to) return;
    *changes_left_ -= changes * std::ssize(heights.waves.heights);
    const WavePrices::Answer answer = prices_->improve(heights.waves, heights.prices, changes, heights.age);
    if (!answer.possible) return;
    heights.end = std::max(heights.end, answer.end);
    heights.first_outside = answer.first_outside;
    heights.age = is_finished(heights) ? most_age : heights.age + changes;
    heights.number = next_number_++;
    queue_.push(std::move(heights));
  }

  const WavePrices* prices_;
  std::size_t giants_;
  Cost highest_;
  std::int64_t* changes_left_;
  std::int64_t next_number_ = 0;
  std::priority_queue<Heights, std::vector<Heights>, EndsLater> queue_;
};

}  // namespace

Cost bound_over_wave_heights(const Levels& levels, const LongItems& long_items, Cost at_least) {
  const WavePrices prices(levels, long_items);
  if (prices.size() == 0 || prices.least_time(0) == 0) return at_least;
  const Cost longest = prices.least_time(0);
  const Cost highest = 2 * std::max(at_least, longest);
  if (highest > sum_limit / 128 / levels.problem().ranks) return at_least;
  std::int64_t changes_left = most_changes;
  std::size_t giants = 0;
  // The more items are giants, the more is known of their waves, and the more of these there may be.
  for (const Cost quarters : {3, 2, 1}) {
    const std::size_t before = giants;
    while (giants < prices.size() && prices.least_time(giants) >= longest / 4 * quarters) ++giants;
    if (giants == before || prices.least_time(giants - 1) == 0) continue;
    if (changes_left <= 0) break;
    at_least = std::max(at_least, HeightSearch(prices, giants, highest, changes_left).least_end());
  }
  return at_least;
}

}  // namespace evenkeel::context
