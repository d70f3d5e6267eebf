#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// How a sequence is cut over context-parallel ranks.
enum class CpLayout : std::uint8_t {
  zigzag,      ///< 2*cp equal chunks; rank r takes chunks r and 2*cp-1-r (Megatron, Transformer Engine)
  contiguous,  ///< cp equal chunks in order (Ulysses)
};

/// A context-parallel group: its size, and how sequences are cut over it.
struct CpGroup {
  int size = 1;
  CpLayout layout = CpLayout::zigzag;

  /// Returns the number of equal chunks into which a sequence is cut: 2*cp for zigzag with cp > 1, otherwise
  /// cp.
  [[nodiscard]] constexpr std::int64_t chunks() const noexcept {
    return layout == CpLayout::zigzag && size > 1 ? 2 * std::int64_t{size} : std::int64_t{size};
  }
  friend constexpr bool operator==(const CpGroup&, const CpGroup&) = default;
};

/// Returns the alignment of sequences, to a multiple of which their lengths are rounded up: the least common
/// multiple of `extra` and 2*cp*tp for zigzag, tp*cp for contiguous, or tp if cp = 1. `extra` is 16 for ROLL,
/// and 16 or 32 for FP8 kernels. Throws InputError if a size is below 1, LimitError if the result exceeds
/// 2^31-1.
[[nodiscard]] std::int64_t sequence_alignment(int tp, CpGroup cp, std::int64_t extra = 1);

/// Returns the smallest multiple of `alignment` that is not below `length`. Preconditions: length >= 0,
/// alignment >= 1.
[[nodiscard]] constexpr std::int64_t align_up(std::int64_t length, std::int64_t alignment) noexcept {
  EVENKEEL_PRECONDITION(cheap, length >= 0 && alignment >= 1, length, alignment);
  return (length + alignment - 1) / alignment * alignment;
}

/// The rows of one aligned sequence that one CP rank holds, in the order in which it holds them: one or two
/// runs, with adjacent runs merged (the last zigzag rank has one). An empty sequence has none.
class CpRuns {
 public:
  using value_type = RowRange;
  using const_iterator = const RowRange*;

  CpRuns() = default;
  explicit CpRuns(RowRange only) : runs_{only, {}}, count_(1) {}
  CpRuns(RowRange first, RowRange second) : runs_{first, second}, count_(2) {}

  [[nodiscard]] const_iterator begin() const noexcept { return runs_.data(); }
  [[nodiscard]] const_iterator end() const noexcept { return runs_.data() + count_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  std::array<RowRange, 2> runs_{};
  std::size_t count_ = 0;
};

/// Returns the runs of CP rank `rank` in a sequence of `aligned_length` rows. Every row belongs to exactly
/// one rank, and each rank holds aligned_length / cp rows. Throws InputError if cp.chunks() does not divide
/// aligned_length.
///
/// Example: length 8, cp 2, zigzag: rank 0 has [0,2) and [6,8), rank 1 has [2,6).
[[nodiscard]] CpRuns cp_runs(std::int64_t aligned_length, CpGroup cp, CpRank rank);

/// Returns the global rows that `rank` holds, in local order, for packed sequences with the given padded
/// cumulative lengths (Transformer Engine's `thd_get_partitioned_indices`). Throws InputError if a length is
/// not a multiple of chunks().
[[nodiscard]] std::vector<std::int64_t> partitioned_indices(std::span<const std::int32_t> cu_seqlens_padded,
                                                            CpGroup cp, CpRank rank);

/// True (unpadded) tokens of each sequence on one CP rank, as cumulative lengths, which varlen attention
/// needs per ring step. Each list has one entry per sequence, plus the leading 0.
struct CuSeqlensOnRank {
  std::vector<std::int32_t> first;   ///< in the first half of the rank's rows
  std::vector<std::int32_t> second;  ///< in the second half
  std::vector<std::int32_t> both;    ///< in all of its rows
};
/// Computes Transformer Engine's `get_cu_seqlens_on_cp_rank` for zigzag. `cu_seqlens` and `cu_seqlens_padded`
/// are global. Throws InputError if they do not match, or if a padded length is not a multiple of 2*cp_size.
[[nodiscard]] CuSeqlensOnRank cu_seqlens_on_cp_rank(std::span<const std::int32_t> cu_seqlens,
                                                    std::span<const std::int32_t> cu_seqlens_padded,
                                                    int cp_size, CpRank rank);

}  // namespace evenkeel
