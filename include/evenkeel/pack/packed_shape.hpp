#pragma once

#include <compare>
#include <cstdint>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

/// What a kernel sees of a packed micro-batch, beside its values: what a CUDA graph is captured for. With
/// `micro_batch.shapes` micro-batches are handed out in few of them, see PackedLayout::with_shape.
struct PackedShape {
  std::int64_t rows = 0;        ///< of the token tensors, on each CP rank
  std::int64_t sequences = 0;   ///< cu_seqlens has one entry more
  std::int64_t max_seqlen = 0;  ///< no sequence is longer, over the whole CP group

  /// Whether a micro-batch that needs `needed` can be padded to this shape: it has no more rows and no longer
  /// sequence, and the rows that are added fit into the sequences that are left, each a multiple of
  /// `alignment` and not above max_seqlen. Precondition: alignment >= 1, cp >= 1.
  [[nodiscard]] constexpr bool holds(const PackedShape& needed, std::int64_t alignment,
                                     std::int64_t cp) const noexcept {
    EVENKEEL_PRECONDITION(cheap, alignment >= 1 && cp >= 1, alignment, cp);
    if (needed.rows > rows || needed.max_seqlen > max_seqlen || rows * cp % alignment != 0) return false;
    const std::int64_t padding = (rows - needed.rows) * cp;
    const std::int64_t longest = max_seqlen / alignment * alignment;
    if (padding > 0 && longest == 0) return false;
    const std::int64_t added = padding > 0 ? (padding + longest - 1) / longest : 0;
    return needed.sequences + added <= sequences;
  }

  friend constexpr auto operator<=>(const PackedShape&, const PackedShape&) = default;
};

}  // namespace evenkeel
