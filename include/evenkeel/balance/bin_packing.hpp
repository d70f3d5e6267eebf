#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// What a bin may hold: the sum of its items' sizes, and of their counts.
struct BinLimits {
  std::int64_t max_size = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_items = std::numeric_limits<std::int64_t>::max();

  friend constexpr bool operator==(const BinLimits&, const BinLimits&) = default;
};

/// What each item takes of a bin: its size, and its count if it stands for several that must stay together. A
/// view; converts from a list of sizes, with counts of 1.
struct BinItems {
  std::span<const std::int64_t> sizes{};
  std::span<const std::int64_t> counts{};  ///< one for each item, at least 1; empty: 1 each

  BinItems() = default;
  BinItems(std::span<const std::int64_t> item_sizes, std::span<const std::int64_t> item_counts = {})
      : sizes(item_sizes), counts(item_counts) {}
  BinItems(const std::vector<std::int64_t>& item_sizes) : sizes(item_sizes) {}

  [[nodiscard]] std::int64_t count_of(Item item) const {
    return counts.empty() ? 1 : counts[static_cast<std::size_t>(item)];
  }
};

/// First-fit-decreasing: items by decreasing size, ties by index, each into the earliest bin with room. Bins
/// are in the order in which they were opened. Throws LimitError that names the first item that fits no bin,
/// InputError for a negative size, a count below 1, or lists of different lengths. O(n log n) if all counts
/// are equal, else O(n * bins). Johnson, 1973.
[[nodiscard]] Partition first_fit_decreasing(BinItems items, BinLimits limits);

/// Best-fit-decreasing: as above, each into the fullest bin with room, ties by the order of opening.
[[nodiscard]] Partition best_fit_decreasing(BinItems items, BinLimits limits);

/// Modified first-fit-decreasing: a bin for each item above half of max_size, by decreasing size; forward
/// through them, the largest item above a third that fits; backward through those that got none, the
/// smallest item above a sixth with the largest other one that fits; forward again, the largest items of any
/// size that fit; then first-fit-decreasing for the rest. At most 71/60 of the fewest bins, plus one, if
/// only sizes are limited; first-fit-decreasing may take 11/9. Throws as that does. O(n log n). Johnson and
/// Garey, 1985.
[[nodiscard]] Partition modified_first_fit_decreasing(BinItems items, BinLimits limits);

/// How bins are packed.
enum class BinPacking : std::uint8_t {
  first_fit_decreasing,
  best_fit_decreasing,
  modified_first_fit_decreasing
};

/// Packs with that algorithm.
[[nodiscard]] Partition pack_bins(BinItems items, BinLimits limits, BinPacking algorithm);

/// MindSpeed-RL's `balanced_bin_packing` for multimodal batches: best-fit-decreasing (ties by
/// decreasing index), then at most three passes that each move one item from a heavy bin to a light
/// one; identical to the reference, including order. Never above `max_size`. Throws LimitError for an
/// item above it.
[[nodiscard]] Partition balanced_bin_packing(std::span<const std::int64_t> sizes, std::int64_t max_size);

/// The fewest bins any packing needs: the larger of ceil(sum / max_size), ceil(sum of counts / max_items) and
/// Martello and Toth's L2 bounds (1990) by size and by count. 0 for no items.
[[nodiscard]] std::int64_t min_bins_lower_bound(BinItems items, BinLimits limits);

}  // namespace evenkeel
