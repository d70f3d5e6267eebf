#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {

/// Values of MindSpeed-RL's option `context_parallel_algo`.
enum class MindSpeedCpAlgorithm : std::uint8_t {
  ring,     ///< `megatron_cp_algo`: zigzag
  ulysses,  ///< `ulysses_cp_algo`: contiguous
  hybrid,   ///< `hybrid_cp_algo`: zigzag over the ring, each part contiguous over its Ulysses group
};

/// Settings of MindSpeed-RL that determine how a batch is cut for context parallelism.
struct MindSpeedCp {
  int size = 1;  ///< `context_parallel_size`
  MindSpeedCpAlgorithm algorithm = MindSpeedCpAlgorithm::ring;
  int ulysses_degree = 1;  ///< `ulysses_degree_in_cp`, for hybrid only
  /// Whether `reset_attention_mask` is set and the mask is causal. If so, ring cuts each packed sequence
  /// separately, in zigzag order. The other algorithms ignore this.
  bool cut_each_sequence = false;

  friend constexpr bool operator==(const MindSpeedCp&, const MindSpeedCp&) = default;
};

/// Returns the number of ranks of one ring (`get_ring_degree`): size for ring, 1 for Ulysses, size /
/// ulysses_degree for hybrid. A hybrid ring of 1 rank is accepted and equals Ulysses. Throws InputError if a
/// size is below 1 or the degree does not divide the size.
[[nodiscard]] int ring_degree(const MindSpeedCp& cp);

/// Returns the columns of a [b, s] batch that `rank` gets, in the order in which it stores them
/// (`get_batch_on_this_cp_rank`).
/// - ring: chunks rank and 2*size-1-rank of 2*size.
/// - Ulysses: runs of ceil(s / size) columns; the last run is shorter if size does not divide s.
/// - hybrid: the ring's cut for rank / ulysses_degree, then run rank mod ulysses_degree of this part. The
///   reference does not cut hybrid batches.
/// - cut_each_sequence: the ring's cut of each packed sequence. `sequence_ends` are the cumulative ends of
///   the sequences on one rank, with or without the leading 0; multiplied by the ring degree, they are the
///   ends in the batch (`actual_seq_len`). Other cuts ignore `sequence_ends`.
///
/// Together, all ranks have each of the columns 0..s-1 exactly once. Throws InputError if a cut other than
/// Ulysses is uneven (in which case the reference may drop columns), if Ulysses would leave a rank without
/// columns, if sequence_ends decrease or do not end at s, for a rank outside the group, and if ring_degree()
/// rejects `cp`.
[[nodiscard]] std::vector<std::int64_t> mindspeed_columns(const MindSpeedCp& cp, std::int64_t columns,
                                                          std::span<const std::int64_t> sequence_ends,
                                                          CpRank rank);

}  // namespace evenkeel
