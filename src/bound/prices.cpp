#include "bound/prices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace evenkeel::context {

namespace {

/// Long items that are told apart.
constexpr std::size_t most_told_apart = 96;
/// Works by token that all other items are taken apart into.
constexpr std::size_t num_grains = 17;
/// More than what floating point can err by, of what is added up.
constexpr double most_error = 1e-9;
constexpr double nowhere = std::numeric_limits<double>::infinity();

/// An item that is not told apart.
struct SandItem {
  double density = 0;  ///< work by token
  double tokens = 0;
  double work = 0;
  double rows = 0;
  double attention = 0;
};

/// Items whose density lies between those of two grains.
struct SandClass {
  double tokens = 0;
  double work = 0;
  double rows = nowhere;  ///< a token, of any
  double attention = 0;   ///< the same at most

  void add(const SandItem& item) {
    tokens += item.tokens;
    work += item.work;
    rows = std::min(rows, item.rows / item.tokens);
    attention = std::max(attention, item.attention / item.tokens);
  }
};

/// From the least to the largest one, by equal factors.
std::vector<double> grain_densities(double least, double largest) {
  if (largest == 0) return std::vector<double>(num_grains, 0);
  std::vector<double> densities;
  const double from = std::max(least, largest / 4096);
  for (std::size_t i = 0; i < num_grains; ++i)
    densities.push_back(
        from * std::pow(largest / from, static_cast<double>(i) / static_cast<double>(num_grains - 1)));
  densities.front() = least;
  densities.back() = largest;
  return densities;
}

}  // namespace

WavePrices::WavePrices(const Levels& levels, const LongItems& long_items) : levels_(&levels) {
  const Problem& problem = levels.problem();
  cap_ = static_cast<double>(problem.limits.max_size);
  overhead_ = static_cast<double>(problem.communication.overhead);
  overlap_ = static_cast<double>(problem.communication.overlap) / 1000;
  for (int level = 0; level < levels.count(); ++level) {
    const std::int64_t size = levels.size(level);
    sizes_.push_back(
        {static_cast<double>(size), static_cast<double>(communication_of(1, size, problem.communication))});
  }
  find_longs(long_items);
  find_grains();
}

void WavePrices::find_longs(const LongItems& long_items) {
  const LeastTokens least_tokens(*levels_);
  std::vector<std::pair<Cost, std::size_t>> order;
  for (std::size_t i = 0; i < long_items.items().size(); ++i)
    order.emplace_back(-context::least_time(long_items.items()[i], *levels_), i);
  std::ranges::sort(order);
  if (order.size() > most_told_apart) order.resize(most_told_apart);
  for (const auto& [time, i] : order) {
    const Item item = long_items.items()[i];
    longs_.push_back({item, -time, overhead_ * static_cast<double>(least_tokens(item)) / cap_});
  }
  for (int level = 0; level < levels_->count(); ++level) {
    Places places;
    places.least_time = nowhere;
    for (const auto& [time, i] : order) {
      const Item item = long_items.items()[i];
      const LongItems::Place& place = long_items.places(i)[static_cast<std::size_t>(level)];
      const auto work = static_cast<double>(levels_->work(item).work);
      places.time.push_back(place.time < 0 ? nowhere : static_cast<double>(place.time));
      places.tokens.push_back(static_cast<double>(levels_->aligned(item, level)));
      places.area.push_back(work + static_cast<double>(place.alone));
      places.hidden.push_back(work + static_cast<double>(place.pooled));
      places.least_time = std::min(places.least_time, places.time.back());
    }
    places_.push_back(std::move(places));
  }
}

/// Costs are concave in the work of a token. So tokens may be taken apart into some with less work and some
/// with more, all work being left: together they cost no more than before.
void WavePrices::find_grains() {
  const LeastTokens least_tokens(*levels_);
  std::vector<bool> is_told_apart(static_cast<std::size_t>(levels_->num_items()), false);
  for (const Long& each : longs_) is_told_apart[static_cast<std::size_t>(each.item)] = true;
  std::vector<SandItem> sand;
  double least = nowhere;
  double largest = 0;
  for (Item item = 0; item < levels_->num_items(); ++item) {
    const auto tokens = static_cast<double>(least_tokens(item));
    if (is_told_apart[static_cast<std::size_t>(item)] || tokens == 0) continue;
    const ContextWork& work = levels_->work(item);
    const auto own = static_cast<double>(work.work);
    sand.push_back(
        {own / tokens, tokens, own, static_cast<double>(work.rows), static_cast<double>(work.attention)});
    least = std::min(least, sand.back().density);
    largest = std::max(largest, sand.back().density);
  }
  if (sand.empty()) return;
  const std::vector<double> densities = grain_densities(least, largest);
  std::vector<SandClass> classes(num_grains - 1);
  for (const SandItem& item : sand) {
    const auto above = std::ranges::upper_bound(densities, item.density) - densities.begin();
    classes[std::min(static_cast<std::size_t>(above), classes.size()) - 1].add(item);
  }
  std::vector<Grain> grains(num_grains);
  std::vector<SandClass> beside(num_grains);  // what the grain has of either class
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const SandClass& here = classes[i];
    if (here.tokens == 0) continue;
    const double wide = densities[i + 1] - densities[i];
    const double high = wide > 0 ? (here.work - densities[i] * here.tokens) / wide : 0;
    const double above = std::clamp(high, 0.0, here.tokens);
    grains[i].tokens += here.tokens - above;
    grains[i + 1].tokens += above;
    for (const std::size_t g : {i, i + 1}) {
      beside[g].rows = std::min(beside[g].rows, here.rows);
      beside[g].attention = std::max(beside[g].attention, here.attention);
    }
  }
  for (std::size_t g = 0; g < num_grains; ++g) {
    const double tokens = grains[g].tokens;
    if (tokens > 0)
      grains_.push_back(
          {tokens, densities[g] * tokens, beside[g].rows * tokens, beside[g].attention * tokens});
  }
}

WavePrice WavePrices::first_price(const Height& height) const {
  WavePrice::Shares even{};
  even.fill(1 / static_cast<double>(even.size()));
  return {.rank = static_cast<double>(height.from + (height.to - height.from) / 2) / 2,
          .levels = std::vector<WavePrice::Shares>(sizes_.size(), even)};
}

/// Prices of some waves, and what items take of them at these.
class PriceSearch {
 public:
  PriceSearch(const WavePrices& all, const WavePrices::Waves& waves, std::vector<WavePrice>& prices)
      : all_(&all), waves_(&waves), prices_(&prices) {}

  [[nodiscard]] WavePrices::Answer improve(int times, int age) {
    std::vector<WavePrice> best_prices = *prices_;
    WavePrices::Answer best;
    for (int i = 0; i < times; ++i) {
      const WavePrices::Answer answer = value();
      if (!answer.possible) return answer;
      if (answer.end > best.end || i == 0) {
        best = answer;
        best_prices = *prices_;
      }
      adjust(2 / std::sqrt(static_cast<double>(i + age + 16)));
    }
    *prices_ = std::move(best_prices);
    return best;
  }

 private:
  /// What a group of a level is charged at a wave's prices.
  struct Charge {
    double a_token = 0;
    double more_than_half = 0;  ///< for an item of more tokens than `half_tokens`
    double a_time = 0;
    double longer_than_half = 0;  ///< for an item of more time than `half_time`
    double a_hidden = 0;
    double half_tokens = 0;
    double half_time = 0;
    double most_time = 0;
  };
  static constexpr std::int64_t outside = -1;

  [[nodiscard]] std::size_t num_levels() const { return all_->sizes_.size(); }
  [[nodiscard]] double ranks() const { return static_cast<double>(all_->levels_->problem().ranks); }
  [[nodiscard]] double busy(std::size_t wave) const {
    return std::max(1.0, static_cast<double>(waves_->heights[wave].to) - all_->overhead_);
  }

  /// What prices prove; and what is used at these.
  WavePrices::Answer value() {
    find_charges();
    used_.assign(charges_.size(), {});
    used_ranks_.assign(prices_->size(), 0);
    sum_ = 0;
    size_of_sum_ = 0;
    for (std::size_t w = 0; w < prices_->size(); ++w) {
      add(static_cast<double>(waves_->heights[w].from) * ranks());
      add(-(*prices_)[w].rank * ranks());
    }
    WavePrices::Answer answer{.first_outside = all_->size()};
    if (!add_longs(answer)) return {.possible = false};
    for (const WavePrices::Grain& grain : all_->grains_) add_grain(grain);
    const double end = (sum_ - most_error * size_of_sum_) / ranks();
    answer.end = static_cast<Cost>(std::max(0.0, std::floor(end)));
    return answer;
  }

  void add(double cost) {
    sum_ += cost;
    size_of_sum_ += std::abs(cost);
  }

  void find_charges() {
    charges_.clear();
    for (std::size_t w = 0; w < prices_->size(); ++w) {
      const WavePrice& price = (*prices_)[w];
      for (std::size_t level = 0; level < num_levels(); ++level) {
        const WavePrice::Shares& shares = price.levels[level];
        const double size = all_->sizes_[level].size;
        charges_.push_back({.a_token = price.rank * shares[WavePrice::tokens] / all_->cap_,
                            .more_than_half = price.rank * shares[WavePrice::half_tokens] * size,
                            .a_time = price.rank * shares[WavePrice::time] / busy(w),
                            .longer_than_half = price.rank * shares[WavePrice::half_time] * size,
                            .a_hidden = price.rank * shares[WavePrice::hidden_time] / busy(w),
                            .half_tokens = all_->cap_ * size / 2 * (1 + most_error),
                            .half_time = busy(w) * size / 2 * (1 + most_error),
                            .most_time = static_cast<double>(waves_->heights[w].to)});
      }
    }
  }

  /// Each where it is cheapest. False: one is nowhere.
  bool add_longs(WavePrices::Answer& answer) {
    choose_outside();
    for (std::size_t at = 0; at < charges_.size(); ++at) choose(at);
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      if (costs_[i] == nowhere) return false;
      add(costs_[i]);
      if (chosen_[i] == outside) answer.first_outside = std::min(answer.first_outside, i);
      if (chosen_[i] != outside) use(i);
    }
    return true;
  }

  /// In waves that are no higher than the last of these.
  void choose_outside() {
    const auto height = static_cast<double>(waves_->heights.back().to);
    costs_.assign(all_->size(), nowhere);
    chosen_.assign(all_->size(), outside);
    for (const WavePrices::Places& places : all_->places_) {
      for (std::size_t i = waves_->giants; i < costs_.size(); ++i) {
        const double cost = places.area[i] + all_->longs_[i].overhead;
        if (places.time[i] <= height) costs_[i] = std::min(costs_[i], cost);
      }
    }
  }

  /// There, where that is cheaper. (Without branches, as compilers like it.)
  void choose(std::size_t at) {
    const Charge charge = charges_[at];
    const WavePrices::Places& places = all_->places_[at % num_levels()];
    if (places.least_time > charge.most_time) return;
    const std::size_t count = costs_.size();
    const auto here = static_cast<std::int64_t>(at);
    const double* const time = places.time.data();
    const double* const tokens = places.tokens.data();
    const double* const area = places.area.data();
    const double* const hidden = places.hidden.data();
    double* const costs = costs_.data();
    std::int64_t* const chosen = chosen_.data();
    for (std::size_t i = 0; i < count; ++i) {
      double cost = charge.a_token * tokens[i] + charge.a_time * area[i] + charge.a_hidden * hidden[i];
      cost += tokens[i] > charge.half_tokens ? charge.more_than_half : 0;
      cost += area[i] > charge.half_time ? charge.longer_than_half : 0;
      cost = time[i] <= charge.most_time ? cost : nowhere;
      chosen[i] = cost < costs[i] ? here : chosen[i];
      costs[i] = std::min(costs[i], cost);
    }
  }

  void use(std::size_t i) {
    const auto at = static_cast<std::size_t>(chosen_[i]);
    const Charge& charge = charges_[at];
    const std::size_t wave = at / num_levels();
    const std::size_t level = at % num_levels();
    const double size = all_->sizes_[level].size;
    const WavePrices::Places& places = all_->places_[level];
    WavePrice::Shares& used = used_[at];
    used[WavePrice::tokens] += places.tokens[i] / all_->cap_;
    used[WavePrice::half_tokens] += places.tokens[i] > charge.half_tokens ? size : 0;
    used[WavePrice::time] += places.area[i] / busy(wave);
    used[WavePrice::half_time] += places.area[i] > charge.half_time ? size : 0;
    used[WavePrice::hidden_time] += places.hidden[i] / busy(wave);
    used_ranks_[wave] += costs_[i] / (*prices_)[wave].rank;
  }

  [[nodiscard]] double hidden(const WavePrices::Grain& grain, std::size_t level) const {
    const double hops = all_->sizes_[level].hops;
    return grain.work + (level == 0 ? 0 : hops * grain.rows - all_->overlap_ * grain.attention);
  }

  void add_grain(const WavePrices::Grain& grain) {
    double least = grain.work + all_->overhead_ * grain.tokens / all_->cap_;
    std::size_t best = charges_.size();
    for (std::size_t at = 0; at < charges_.size(); ++at) {
      const Charge& charge = charges_[at];
      const double cost = charge.a_token * grain.tokens + charge.a_time * grain.work +
                          charge.a_hidden * hidden(grain, at % num_levels());
      if (cost >= least) continue;
      least = cost;
      best = at;
    }
    add(least);
    if (best == charges_.size()) return;
    const std::size_t wave = best / num_levels();
    WavePrice::Shares& used = used_[best];
    used[WavePrice::tokens] += grain.tokens / all_->cap_;
    used[WavePrice::time] += grain.work / busy(wave);
    used[WavePrice::hidden_time] += hidden(grain, best % num_levels()) / busy(wave);
    used_ranks_[wave] += least / (*prices_)[wave].rank;
  }

  /// Waves of which more is used than there is get dearer, and of a group's limits that which most is used
  /// of.
  void adjust(double step) {
    for (std::size_t w = 0; w < prices_->size(); ++w) {
      WavePrice& price = (*prices_)[w];
      price.rank *= std::exp(std::clamp(step / 2 * (used_ranks_[w] / ranks() - 1), -0.5, 0.5));
      for (std::size_t level = 0; level < num_levels(); ++level)
        adjust(price.levels[level], used_[w * num_levels() + level], all_->sizes_[level].size, step);
    }
  }

  static void adjust(WavePrice::Shares& shares, const WavePrice::Shares& used, double size, double step) {
    constexpr double least_share = 1e-4;
    const double most = std::ranges::max(used);
    if (most <= 0) return;
    double sum = 0;
    for (std::size_t limit = 0; limit < shares.size(); ++limit) {
      const double less = (used[limit] - most) / std::max(most, size);
      shares[limit] = std::max(shares[limit], least_share) * std::exp(4 * step * less);
      sum += shares[limit];
    }
    for (double& share : shares) share /= sum;
  }

  const WavePrices* all_;
  const WavePrices::Waves* waves_;
  std::vector<WavePrice>* prices_;
  std::vector<Charge> charges_;       ///< of each wave all levels
  std::vector<double> costs_;         ///< of the long items, where they are cheapest
  std::vector<std::int64_t> chosen_;  ///< where that is: wave * levels + level, or outside
  std::vector<WavePrice::Shares> used_;
  std::vector<double> used_ranks_;
  double sum_ = 0;
  double size_of_sum_ = 0;
};

WavePrices::Answer WavePrices::improve(const Waves& waves, std::vector<WavePrice>& prices, int times,
                                       int age) const {
  return PriceSearch(*this, waves, prices).improve(times, age);
}

}  // namespace evenkeel::context
