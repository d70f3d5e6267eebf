#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/task.hpp"

namespace evenkeel::context {

/// Parameters of one wave-building trial.
struct WaveTrial {
  /// Time limit for the first item of a wave. The item gets the group size with the least area among those on
  /// which it ends within this limit or, if there is none, the size on which it ends first.
  Cost first_limit = 0;
  Cost height = 0;  ///< time up to which a wave is filled, unless the time of its first item is longer
  /// If not 0, waves that already have items may become longer, by 1 / slack of their time, while they are
  /// filled.
  Cost slack = 0;
};

/// Micro-batches in the order of their waves, each with the number of its wave, and the sum of the waves'
/// times. Micro-batches are assigned to ranks here only if speeds differ; otherwise, finalize_waves() assigns
/// them.
struct Waves {
  std::vector<OpenTask> tasks;
  Cost end = 0;
};

/// Builds waves one by one:
/// 1. The largest remaining item starts a wave. The height of the wave is the time up to which its
///    micro-batches are filled: this item's time, or WaveTrial::height if that is larger.
/// 2. While ranks are free, the largest remaining item that fits within this height starts a micro-batch. It
///    gets the group size with the least area (Levels::area(): time summed over the ranks).
/// 3. Each new micro-batch is filled up with the largest items that still fit.
///
/// Items are found by bisection, so a trial takes O(n log n), or more if lengths do not increase with work.
class WaveBuilder {
 public:
  /// Precondition: `items` is in descending order of work.
  WaveBuilder(const Levels& levels, std::vector<Item> items);

  /// Returns waves of all items. Keeps the waves of `start`, adds items to them, and then adds waves.
  [[nodiscard]] Waves build(const WaveTrial& trial, Waves start = {});
  /// Adds items to the waves of `start`, without adding waves.
  [[nodiscard]] Waves fill_up(const WaveTrial& trial, Waves start);
  /// Returns the items that the last call of build(), fill_up() or add_wave() did not place in any wave.
  [[nodiscard]] std::vector<Item> unplaced_items();
  /// Adds one wave of items that are not in `waves` yet. Precondition: there are such items.
  void add_wave(const WaveTrial& trial, Waves& waves);
  /// Returns the largest item that is not in `waves`. Precondition: such an item exists.
  [[nodiscard]] Item largest_unplaced_item(const Waves& waves);
  [[nodiscard]] bool are_all_items_in(const Waves& waves) const;
  /// Returns the items by descending work.
  [[nodiscard]] std::span<const Item> order() const noexcept { return order_; }

 private:
  void reset_unplaced_items(const Waves& waves);
  void fill_and_append_tasks(std::span<OpenTask> started, Cost height, Waves& waves);
  /// Returns the first position >= `at` whose item is not placed yet, or the number of items if all are
  /// placed.
  std::size_t next_unplaced(std::size_t at);
  void mark_placed(std::size_t at) { next_[at] = at + 1; }
  [[nodiscard]] std::size_t first_place_within(std::size_t from, Cost work, std::int64_t tokens) const;
  void fill(OpenTask& task, std::size_t from, Cost height);
  std::size_t find_companion(const OpenTask& task, std::size_t from, Cost height);
  void build_wave(const WaveTrial& trial, std::int64_t wave, std::span<OpenTask> started, Waves& waves);

  const Levels* levels_;
  std::vector<Item> order_;
  std::vector<Cost> works_;            ///< work of each item, in the order of `order_`
  std::vector<std::int64_t> tokens_;   ///< aligned tokens of each item on one rank, in the order of `order_`
  bool are_tokens_descending_ = true;  ///< whether `tokens_` never increases, so that it can be bisected
  std::vector<std::size_t> places_;    ///< position of each item in `order_`
  /// By position: the position itself if its item is not placed yet, otherwise a later position.
  std::vector<std::size_t> next_;
};

/// Totals of the small items, which are the items that schedule_waves() does not call long. They are treated
/// as divisible, since they will fill the remaining room of waves.
struct SmallItems {
  Cost work = 0;  ///< total work of the small items, including their share of overheads
  Cost per_token = 0;
};

/// Returns waves of all items of `builder`, found by beam search, in ascending order of end. The height of a
/// wave is the time of the largest remaining item on a group of some size, or up to a third more; all these
/// heights are tried. Among partial schedules with the same number of waves, the ones with the earliest
/// estimated end are kept. The estimate uses the waves' times and the minimum area of the remaining items.
/// After `placements` placed items, the most promising partial schedule is completed greedily.
[[nodiscard]] std::vector<Waves> beam_search_waves(const Levels& levels, WaveBuilder& builder,
                                                   const SmallItems& small, std::int64_t placements);

}  // namespace evenkeel::context
