#pragma once

#include <cstdint>

// The values in the configuration's section `exchange`. They are here since both need them: the
// configuration, which does not use MPI, and the rooms that implement an exchange.
namespace evenkeel {

/// How tokens get from owners to consumers. All paths deliver the same bytes.
enum class ExchangePath : std::uint8_t {
  automatic,       ///< shared memory if ranks of a node can read each other's, else point-to-point
  point_to_point,  ///< non-blocking messages in derived datatypes, one or more a pair of ranks
  alltoallv,       ///< MPI_Alltoallw over the same datatypes
  shared_memory,   ///< inside a node consumers copy out of the owners' memory; between nodes point-to-point
};

/// Whether the ranks of a node combine what goes to another node in one message, sent by a leader, or send
/// one message each. Not used on the path alltoallv, which is one call anyway.
enum class NodeAggregation : std::uint8_t {
  automatic,  ///< for each pair of nodes: through leaders if their messages are small on average
  always,     ///< through leaders if there are two messages or more and they fit in the leaders' memory
  never,
};

/// Up to this many bytes on average, messages from one node to another are small.
inline constexpr std::int64_t small_message_bytes = std::int64_t{4} << 10;

/// Whose tensors the tensor-parallel ranks of one place use, except the first.
enum class TensorParallelCopies : std::uint8_t {
  own,     ///< a copy each
  shared,  ///< those of the first, if all are on one node: read-only, and copied when written
};

}  // namespace evenkeel
