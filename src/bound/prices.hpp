#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "balance/context/levels.hpp"
#include "balance/context/long_items.hpp"

namespace evenkeel::context {

/// What the ranks of a wave cost, and for which of its limits a group pays that.
struct WavePrice {
  /// What a group has no more of than its ranks have in the wave's height.
  enum Limit : std::size_t {
    tokens,       ///< aligned
    half_tokens,  ///< items of more than half of the tokens: there is one at most
    time,         ///< work and communication that no company hides
    half_time,    ///< items of more than half of the time
    hidden_time,  ///< work and communication less all that attention can hide of it
    num_limits
  };
  using Shares = std::array<double, num_limits>;  ///< their sum is 1

  double rank = 0;
  std::vector<Shares> levels;
};

/// How late waves of known heights end at least, whichever items they hold: the dual of a linear program,
/// whose prices are looked for by multiplicative steps (Arora, Hazan and Kale, 2012). Any prices prove an
/// end, better ones a later one. docs/bounds.md has the proof. Views the levels.
///
/// Rounded down by more than the worst floating-point error.
class WavePrices {
 public:
  /// Heights that a wave may have.
  struct Height {
    Cost from = 0;
    Cost to = 0;
  };
  /// The highest waves of a schedule.
  struct Waves {
    std::vector<Height> heights;  ///< by falling height
    std::size_t giants = 0;       ///< so many of the longest items are in none of the other waves
  };
  /// What prices prove.
  struct Answer {
    Cost end = 0;                   ///< no schedule ends before
    bool possible = true;           ///< false: an item fits into none of the waves
    std::size_t first_outside = 0;  ///< the longest item that would not be in these waves; size() for none
  };

  WavePrices(const Levels& levels, const LongItems& long_items);

  /// Items that are told apart, the longest ones, by falling least time.
  [[nodiscard]] std::size_t size() const noexcept { return longs_.size(); }
  /// Of the i-th of them on its best group.
  [[nodiscard]] Cost least_time(std::size_t i) const { return longs_[i].least_time; }

  /// To begin with.
  [[nodiscard]] WavePrice first_price(const Height& height) const;

  /// Changes prices so many times, for a later end, and leaves the best. They have been changed `age` times
  /// before: later changes are smaller. O(items that are told apart * waves * levels) a time.
  Answer improve(const Waves& waves, std::vector<WavePrice>& prices, int times, int age) const;

 private:
  friend class PriceSearch;

  struct Long {
    Item item = 0;
    Cost least_time = 0;
    double overhead = 0;  ///< of its tokens' share of a rank that is full
  };
  /// Long items on a level.
  struct Places {
    double least_time = 0;     ///< of any of them
    std::vector<double> time;  ///< alone; infinite where it does not fit
    std::vector<double> tokens;
    std::vector<double> area;    ///< work and communication that no company hides
    std::vector<double> hidden;  ///< work and communication less all that attention can hide of it
  };
  /// Tokens that are worked on alike.
  struct Grain {
    double tokens = 0;
    double work = 0;
    double rows = 0;       ///< at least
    double attention = 0;  ///< at most
  };
  struct Level {
    double size = 0;
    double hops = 0;  ///< what communication costs a row
  };

  void find_longs(const LongItems& long_items);
  void find_grains();

  const Levels* levels_;
  double cap_ = 1;       ///< tokens of a rank
  double overhead_ = 0;  ///< of a micro-batch
  double overlap_ = 0;
  std::vector<Level> sizes_;
  std::vector<Long> longs_;
  std::vector<Places> places_;  ///< one a level
  std::vector<Grain> grains_;   ///< all other items
};

}  // namespace evenkeel::context
