#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// The capacity of a bin: limits on the sum of its items' sizes and on the sum of their counts.
struct BinLimits {
  std::int64_t max_size = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_items = std::numeric_limits<std::int64_t>::max();

  friend constexpr bool operator==(const BinLimits&, const BinLimits&) = default;
};

/// The sizes and counts of the items to be packed. An item's count is more than 1 if it consists of several
/// parts that must stay together. A view. Converts from a list of sizes, with counts of 1.
struct BinItems {
  std::span<const std::int64_t> sizes{};
  std::span<const std::int64_t> counts{};  ///< one per item, at least 1; empty if all are 1

  BinItems() = default;
  BinItems(std::span<const std::int64_t> item_sizes, std::span<const std::int64_t> item_counts = {})
      : sizes(item_sizes), counts(item_counts) {}
  BinItems(const std::vector<std::int64_t>& item_sizes) : sizes(item_sizes) {}

  [[nodiscard]] std::int64_t count_of(Item item) const {
    return counts.empty() ? 1 : counts[static_cast<std::size_t>(item)];
  }
};

/// Packs by first-fit-decreasing: puts each item, in descending order of size with ties by index, into the
/// earliest bin with room. Bins are in the order in which they were opened. Throws LimitError naming the
/// first item that does not fit in any bin, and InputError for a negative size, a count below 1, a sum of
/// 2^62 or more, or lists of different lengths. O(n log n) if all counts are 1, otherwise O(n * bins).
/// Johnson, 1973.
[[nodiscard]] Partition first_fit_decreasing(BinItems items, BinLimits limits);

/// Same as first_fit_decreasing(), but puts each item into the fullest bin with room. Among equally full
/// bins, chooses the one that was opened first.
[[nodiscard]] Partition best_fit_decreasing(BinItems items, BinLimits limits);

/// Packs by modified first-fit-decreasing (Johnson and Garey, 1985):
/// 1. Open a bin for each item above half of max_size, by decreasing size.
/// 2. Going forward through these bins, add the largest item above a third that fits.
/// 3. Going backward through the bins to which step 2 added nothing, add the smallest item above a sixth
///    together with the largest other such item that fits.
/// 4. Going forward again, add the largest items of any size that fit.
/// 5. Pack the rest by first-fit-decreasing.
///
/// Uses at most 71/60 of the minimum number of bins, plus one, if only sizes are limited;
/// first-fit-decreasing may use 11/9. Throws LimitError and InputError like first_fit_decreasing(). O(n log
/// n) if all counts are 1.
[[nodiscard]] Partition modified_first_fit_decreasing(BinItems items, BinLimits limits);

/// Algorithm for packing bins.
enum class BinPacking : std::uint8_t {
  first_fit_decreasing,
  best_fit_decreasing,
  modified_first_fit_decreasing
};

/// Packs with the given algorithm.
[[nodiscard]] Partition pack_bins(BinItems items, BinLimits limits, BinPacking algorithm);

/// Packs like MindSpeed-RL's `balanced_bin_packing` for multimodal batches: best-fit-decreasing (ties by
/// descending index), then at most three passes that each move one item from a heavy bin to a light one. The
/// result is identical to the reference, including order. Bins never exceed `max_size`. Throws LimitError for
/// an item above it, and InputError for a negative size or a sum of 2^62 or more.
[[nodiscard]] Partition balanced_bin_packing(std::span<const std::int64_t> sizes, std::int64_t max_size);

/// Returns a lower bound on the number of bins of any packing: the maximum of ceil(sum / max_size), ceil(sum
/// of counts / max_items), and Martello and Toth's L2 bounds (1990) by size and by count. 0 for no items.
[[nodiscard]] std::int64_t min_bins_lower_bound(BinItems items, BinLimits limits);

}  // namespace evenkeel
