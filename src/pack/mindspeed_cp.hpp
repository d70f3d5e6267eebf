#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {

/// MindSpeed-RL's `context_parallel_algo`.
enum class MindSpeedCpAlgorithm : std::uint8_t {
  ring,     ///< `megatron_cp_algo`: zigzag
  ulysses,  ///< `ulysses_cp_algo`: contiguous
  hybrid,   ///< `hybrid_cp_algo`: zigzag over rings, each part contiguous over its Ulysses group
};

/// How MindSpeed-RL cuts a batch for context parallelism.
struct MindSpeedCp {
  int size = 1;  ///< `context_parallel_size`
  MindSpeedCpAlgorithm algorithm = MindSpeedCpAlgorithm::ring;
  int ulysses_degree = 1;  ///< `ulysses_degree_in_cp`, of hybrid
  /// `reset_attention_mask` with a causal mask, of ring: each packed sequence is zigzag-cut on its own.
  bool cut_each_sequence = false;

  friend constexpr bool operator==(const MindSpeedCp&, const MindSpeedCp&) = default;
};

/// Ranks of one ring (`get_ring_degree`): size for ring, 1 for Ulysses, size / ulysses_degree for hybrid,
/// where 1 is accepted and makes it Ulysses. Throws InputError when a size is below 1 or the degree does not
/// divide the size.
[[nodiscard]] int ring_degree(const MindSpeedCp& cp);

/// The columns of a [b, s] batch that `rank` gets, in its order (`get_batch_on_this_cp_rank`).
/// - ring: chunks rank and 2*size-1-rank of 2*size.
/// - Ulysses: runs of ceil(s / size) columns, the last one shorter where size does not divide s.
/// - hybrid: the ring's cut for rank / ulysses_degree, then run rank mod ulysses_degree of it. The reference
///   leaves such a batch uncut.
/// - cut_each_sequence: the ring's cut of each packed sequence. `sequence_ends` are their cumulative ends on
/// one
///   rank, with or without the leading 0; times the ring degree they are the ends in the batch
///   (`actual_seq_len`). Others ignore it.
///
/// The columns of all ranks are 0..s-1, each once. Throws InputError when a cut does not come out even (where
/// the reference may drop columns), when Ulysses would leave a rank without columns, when sequence_ends fall
/// or do not end at s, for a rank outside the group, and as ring_degree does.
[[nodiscard]] std::vector<std::int64_t> mindspeed_columns(const MindSpeedCp& cp, std::int64_t columns,
                                                          std::span<const std::int64_t> sequence_ends,
                                                          CpRank rank);

/// The columns that the outputs of all ranks stand for when they are gathered rank after rank: moving
/// gathered column i to column [i] of the result undoes the cut. Throws as mindspeed_columns does.
[[nodiscard]] std::vector<std::int64_t> mindspeed_gathered_columns(
    const MindSpeedCp& cp, std::int64_t columns, std::span<const std::int64_t> sequence_ends);

/// The chunk numbers of a ring rank, of 2*size: what the reference returns as a rank's index when sequences
/// are not cut on their own.
[[nodiscard]] constexpr std::array<std::int64_t, 2> ring_chunks(int size, CpRank rank) noexcept {
  return {rank.value(), 2 * std::int64_t{size} - 1 - rank.value()};
}

}  // namespace evenkeel
