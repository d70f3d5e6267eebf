#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/task.hpp"

namespace evenkeel::context {

/// How waves are built in one trial.
struct WaveTrial {
  Cost first_limit = 0;  ///< the first item of a wave takes the least area within this time
  Cost height = 0;       ///< waves are filled up to this, or as high as their first item is
  /// Waves that have items already are filled up to as high as they are, and 1 / slack of it; 0: no more.
  Cost slack = 0;
};

/// Micro-batches with the number of their wave, by wave, and without ranks unless speeds differ. And the sum
/// of what waves take.
struct Waves {
  std::vector<OpenTask> tasks;
  Cost end = 0;
};

/// Fills wave after wave. The largest item left begins a wave, and says how high it is. Then, as long as
/// ranks are free, the largest items left that fit below this height each begin a micro-batch, on the group
/// on which they take least area, and it is filled up with the largest items that fit. Every item is looked
/// for by bisection, so that a trial is O(n log n) and more only where lengths do not rise with work.
class WaveBuilder {
 public:
  /// For `items`, which come by falling work.
  WaveBuilder(const Levels& levels, std::vector<Item> items);

  /// `start` has micro-batches by wave that are kept; more items are added to them, and more waves.
  [[nodiscard]] Waves build(const WaveTrial& trial, Waves start = {});
  /// Adds items to the waves of `start` only.
  [[nodiscard]] Waves fill_up(const WaveTrial& trial, Waves start);
  /// Those that the last waves that were built leave.
  [[nodiscard]] std::vector<Item> left();
  /// Adds one wave of items that are in none yet, of which there are some.
  void add_wave(const WaveTrial& trial, Waves& waves);
  /// The largest item that is in no wave. Precondition: there is one.
  [[nodiscard]] Item first_left(const Waves& waves);
  [[nodiscard]] bool holds_all(const Waves& waves) const;
  /// Items by falling work.
  [[nodiscard]] std::span<const Item> order() const noexcept { return order_; }

 private:
  void start_with(const Waves& waves);
  void raise(std::span<OpenTask> started, Cost height, Waves& waves);
  /// The first place from `at` on whose item is left; the number of items where there is none.
  std::size_t next_left(std::size_t at);
  void take(std::size_t at) { next_[at] = at + 1; }
  [[nodiscard]] std::size_t first_place_within(std::size_t from, Cost work, std::int64_t tokens) const;
  void fill(OpenTask& task, std::size_t from, Cost height);
  std::size_t find_company(const OpenTask& task, std::size_t from, Cost height);
  void build_wave(const WaveTrial& trial, std::int64_t wave, std::span<OpenTask> started, Waves& waves);

  const Levels* levels_;
  std::vector<Item> order_;
  std::vector<Cost> works_;           ///< in order
  std::vector<std::int64_t> tokens_;  ///< aligned for one rank, in order
  bool tokens_fall_ = true;           ///< with work
  std::vector<std::size_t> places_;   ///< of items in the order
  std::vector<std::size_t> next_;     ///< a place itself where its item is left, else some place behind it
};

/// Small items that will be put where waves have room, as if they were sand.
struct Sand {
  Cost work = 0;  ///< with their share in overheads
  Cost per_token = 0;
};

/// Waves of all items of `builder`, wave after wave: as high as the largest item left takes on one of its
/// groups, or somewhat more. All heights are tried; of the beginnings with as many waves the most promising
/// are kept, which are those that end first with the least area of what is left. (Beam search.) Once so many
/// items were placed, the most promising one is filled up as it comes. Those that end first come first.
[[nodiscard]] std::vector<Waves> beam_waves(const Levels& levels, WaveBuilder& builder, const Sand& sand,
                                            std::int64_t placements);

}  // namespace evenkeel::context
