#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {

/// The properties of a packed micro-batch, apart from its values, that kernels depend on. One CUDA graph is
/// captured per shape. With `micro_batch.shapes`, micro-batches have only a few different shapes; see
/// PackedLayout::with_shape.
struct PackedShape {
  std::int64_t rows = 0;        ///< rows of the token tensors on each CP rank
  std::int64_t sequences = 0;   ///< number of sequences; cu_seqlens has one more entry
  std::int64_t max_seqlen = 0;  ///< maximum length of a sequence over the whole CP group
  std::int64_t cp = 1;          ///< number of ranks of that group

  /// Returns whether a micro-batch that needs `needed` can be padded to this shape: it is on the same number
  /// of ranks, does not have more rows or a longer sequence, and the added rows fit in the remaining
  /// sequences, each of which is a multiple of `alignment` and at most max_seqlen. Precondition: alignment >=
  /// 1, cp >= 1.
  [[nodiscard]] constexpr bool holds(const PackedShape& needed, std::int64_t alignment) const noexcept {
    EVENKEEL_PRECONDITION(cheap, alignment >= 1 && cp >= 1, alignment, cp);
    if (needed.cp != cp || needed.rows > rows || needed.max_seqlen > max_seqlen || rows * cp % alignment != 0)
      return false;
    const std::int64_t padding = (rows - needed.rows) * cp;
    const std::int64_t longest = max_seqlen / alignment * alignment;
    if (padding > 0 && longest == 0) return false;
    const std::int64_t added = padding > 0 ? (padding + longest - 1) / longest : 0;
    return needed.sequences + added <= sequences;
  }

  friend constexpr auto operator<=>(const PackedShape&, const PackedShape&) = default;
};

/// The positions of b sequences in one packed micro-batch: back to back, each aligned and cut over the CP
/// ranks separately. A value type; the tensors it describes are 1-D over tokens (plus trailing dimensions).
///
/// Example: lengths {2, 4, 6, 1}, alignment 4, cp 2: cu_seqlens {0, 2, 6, 12, 13}, cu_seqlens_padded
/// {0, 4, 8, 16, 20}, max_seqlen 8 and 10 rows on each CP rank (ROLL's worked example, section 2.2.3).
class PackedLayout {
 public:
  PackedLayout() : PackedLayout({}, 1, {}) {}
  /// `lengths` are b true lengths in tokens. `alignment` must be a multiple of cp.chunks(). Throws InputError
  /// for a negative length or a wrong alignment, LimitError if the packed length exceeds 2^31-1, the limit of
  /// int32 cu_seqlens. O(b).
  PackedLayout(std::span<const std::int64_t> lengths, std::int64_t alignment, CpGroup cp);
  /// Makes the same layout with b given aligned lengths, each a multiple of `alignment` and at least the
  /// sequence's length.
  PackedLayout(std::span<const std::int64_t> lengths, std::span<const std::int64_t> aligned_lengths,
               std::int64_t alignment, CpGroup cp);

  /// Returns this layout padded to `rows` rows over the whole CP group, for kernels that need one fixed
  /// shape: the last sequence's aligned length increases by the difference, and max_seqlen accordingly
  /// (ROLL's `pad_packed_seq_to`). The example above padded to 24 has cu_seqlens_padded {0, 4, 8, 16, 24}.
  /// Throws InputError if rows would be cut off, if the difference is not a multiple of alignment(), or if
  /// there is no sequence; LimitError like the constructor. O(b).
  [[nodiscard]] PackedLayout padded_to(std::int64_t rows) const;

  /// Returns this layout with exactly the shape for which a kernel was made: missing rows are appended as
  /// sequences of padding without tokens, as few as max_seqlen allows; then empty sequences are appended.
  /// max_seqlen() is the shape's. Existing rows do not move. The example above in the shape {12, 7, 16, 2}
  /// has cu_seqlens {0, 2, 6, 12, 13, 13, 13, 13} and cu_seqlens_padded {0, 4, 8, 16, 20, 24, 24, 24}. Throws
  /// InputError unless shape.holds() this layout; LimitError like the constructor. O(shape.sequences).
  [[nodiscard]] PackedLayout with_shape(const PackedShape& shape) const;

  /// Returns b.
  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(cu_seqlens_.size()) - 1;
  }
  [[nodiscard]] CpGroup cp() const noexcept { return cp_; }
  [[nodiscard]] std::int64_t alignment() const noexcept { return alignment_; }
  /// Returns b+1 prefix sums of the true lengths, starting at 0.
  [[nodiscard]] std::span<const std::int32_t> cu_seqlens() const noexcept { return cu_seqlens_; }
  /// Returns b+1 prefix sums of the aligned lengths, over the whole CP group, starting at 0.
  [[nodiscard]] std::span<const std::int32_t> cu_seqlens_padded() const noexcept {
    return cu_seqlens_padded_;
  }
  /// Returns the longest aligned length, 0 without sequences; after padding to a shape, the shape's.
  [[nodiscard]] std::int32_t max_seqlen() const noexcept { return max_seqlen_; }
  /// Returns the longest true length, 0 without sequences. O(b).
  [[nodiscard]] std::int32_t max_length() const noexcept;
  /// Returns the number of rows over the whole CP group: the last of cu_seqlens_padded.
  [[nodiscard]] std::int64_t num_rows() const noexcept { return cu_seqlens_padded_.back(); }
  /// Returns the number of true tokens over the whole CP group.
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return cu_seqlens_.back(); }
  /// Returns the number of rows that each CP rank holds.
  [[nodiscard]] std::int64_t local_rows() const noexcept { return num_rows() / cp_.size; }
  /// Returns the true length of sequence i.
  [[nodiscard]] std::int64_t length(std::int64_t i) const noexcept;
  [[nodiscard]] std::int64_t aligned_length(std::int64_t i) const noexcept;
  /// Returns the rows of sequence i in each CP rank's local tensors.
  [[nodiscard]] RowRange local_range(std::int64_t i) const noexcept;

  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;

 private:
  void append(std::int64_t length, std::int64_t aligned_length);

  CpGroup cp_;
  std::int64_t alignment_ = 1;
  std::vector<std::int32_t> cu_seqlens_{0};
  std::vector<std::int32_t> cu_seqlens_padded_{0};
  std::int32_t max_seqlen_ = 0;
};

/// One copy between a sequence and a CP rank's local packed tensor: rows [sequence.begin, sequence.end) of
/// sequence `index` are at rows [local, local + sequence.size()).
struct PackedRun {
  std::int64_t index = 0;
  RowRange sequence;
  std::int64_t local = 0;

  friend constexpr bool operator==(const PackedRun&, const PackedRun&) = default;
};

/// Returns every run of true tokens that CP rank `rank` holds, in local order and without padding rows; the
/// runs' sizes over all ranks sum to num_tokens(). Packing, cutting, merging, unpacking and the transfer plan
/// all place rows in this way. O(b).
[[nodiscard]] std::vector<PackedRun> packed_runs(const PackedLayout& layout, CpRank rank);

}  // namespace evenkeel
