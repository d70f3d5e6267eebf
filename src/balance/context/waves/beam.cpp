#include "balance/context/waves/beam.hpp"

#include <algorithm>
#include <utility>

#include "balance/checks.hpp"
#include "cost/sum_limit.hpp"

namespace evenkeel::context {

namespace {

/// So many beginnings with as many waves are kept.
constexpr std::int64_t most_kept = 24;
constexpr Cost any_height = sum_limit >> 20;
/// Waves are as high as their first item takes, and by 1 / one of these more; 0: no more.
constexpr Cost extras[] = {0, 8, 3};

class WaveBeam {
 public:
  WaveBeam(const Levels& levels, WaveBuilder& builder, const Sand& sand, std::int64_t placements)
      : levels_(levels), builder_(builder), sand_(sand), placements_(placements), reserve_(placements / 2) {
    for (const Item item : builder.order()) area_ += least_area(item);
  }

  [[nodiscard]] std::vector<Waves> search() {
    std::vector<State> beam{{.waves = {}, .left = area_, .score = 0}};
    while (!beam.empty()) {
      if (placements_ <= 0) {
        done_.push_back(builder_.build({.first_limit = any_height}, beam.front().waves));
        break;
      }
      std::vector<State> next;
      const std::int64_t before = placements_;
      for (const State& state : beam) extend(state, next);
      const std::int64_t of_each = (before - placements_) / std::ssize(beam);
      beam = most_promising(std::move(next), (placements_ - reserve_) / std::max<std::int64_t>(1, of_each));
    }
    std::ranges::stable_sort(done_, {}, &Waves::end);
    return std::move(done_);
  }

 private:
  /// The first waves.
  struct State {
    Waves waves;
    Cost left = 0;   ///< least area of items in no wave
    Cost score = 0;  ///< when it may end
  };

  [[nodiscard]] Cost least_area(Item item) const {
    Cost least = -1;
    for (int level = levels_.lowest(item); level < levels_.count(); ++level)
      if (levels_.fits(item, level) && (least < 0 || levels_.area(item, level) < least))
        least = levels_.area(item, level);
    return least;
  }

  /// By one more wave, for each height that is tried.
  void extend(const State& state, std::vector<State>& next) {
    const Item item = builder_.first_left(state.waves);
    Cost last = -1;
    for (int level = levels_.lowest(item); level < levels_.count(); ++level) {
      if (!levels_.fits(item, level)) continue;
      const Cost time = levels_.time(item, level);
      if (last >= 0 && time >= last) continue;
      last = time;
      for (const Cost extra : extras) extend_to(state, time, extra == 0 ? time : time + time / extra, next);
    }
  }

  void extend_to(const State& state, Cost first, Cost height, std::vector<State>& next) {
    State longer = state;
    const std::size_t before = longer.waves.tasks.size();
    builder_.add_wave({.first_limit = first, .height = height}, longer.waves);
    placements_ -= std::ssize(builder_.order());
    for (std::size_t t = before; t < longer.waves.tasks.size(); ++t)
      for (const Item item : longer.waves.tasks[t].items) longer.left -= least_area(item);
    std::int64_t no_looks = 0;  // just when they end, with the sand
    improve_waves(longer.waves, levels_, sand_, no_looks);
    // Some ranks will be idle in further waves, too.
    longer.score = longer.waves.end + levels_.speeds().mean_time(longer.left) * 9 / 8;
    if (builder_.holds_all(longer.waves)) {
      done_.push_back(std::move(longer.waves));
    } else {
      next.push_back(std::move(longer));
    }
  }

  /// As many as may be extended, one at least.
  [[nodiscard]] static std::vector<State> most_promising(std::vector<State> states, std::int64_t most) {
    std::ranges::stable_sort(states, {}, &State::score);
    const auto same = std::ranges::unique(states, {}, &State::score);
    states.erase(same.begin(), same.end());
    const auto kept = static_cast<std::size_t>(std::clamp<std::int64_t>(most, 1, most_kept));
    if (states.size() > kept) states.resize(kept);
    return states;
  }

  const Levels& levels_;
  WaveBuilder& builder_;
  Sand sand_;
  std::int64_t placements_;
  std::int64_t reserve_;  ///< of them for the most promising alone
  Cost area_ = 0;
  std::vector<Waves> done_;
};

}  // namespace

std::vector<Waves> beam_waves(const Levels& levels, WaveBuilder& builder, const Sand& sand,
                              std::int64_t placements) {
  return WaveBeam(levels, builder, sand, placements).search();
}

}  // namespace evenkeel::context
