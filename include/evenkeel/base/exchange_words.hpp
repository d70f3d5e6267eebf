#pragma once

#include <cstdint>

// The values in the configuration's section `exchange`. They are defined here because they are needed both by
// the configuration, which does not use MPI, and by the modules that implement an exchange.
namespace evenkeel {

/// How tokens are transferred from owners to consumers. All paths deliver the same bytes.
enum class ExchangePath : std::uint8_t {
  automatic,       ///< shared memory if ranks of a node can read each other's, otherwise point-to-point
  point_to_point,  ///< non-blocking messages in derived datatypes, one or more per pair of ranks
  alltoallv,       ///< MPI_Alltoallw over the same datatypes
  shared_memory,   ///< inside a node, consumers copy from the owners' memory; between nodes, point-to-point
};

/// Whether the ranks of a node combine their data for another node in one message, sent by a leader, or send
/// one message each. Not used with the path alltoallv, which is a single call anyway.
enum class NodeAggregation : std::uint8_t {
  automatic,  ///< for each pair of nodes: through leaders if their messages are small on average
  always,     ///< through leaders if there are at least two messages and they fit in the leaders' memory
  never,
};

/// Messages from one node to another count as small up to this number of bytes on average.
inline constexpr std::int64_t small_message_bytes = std::int64_t{4} << 10;

/// The tensors that the tensor-parallel ranks of a place use, except its first rank, which has its own.
enum class TensorParallelCopies : std::uint8_t {
  own,     ///< a separate copy per rank
  shared,  ///< the first rank's tensors, if all are on one node: read-only, and copied when written
};

}  // namespace evenkeel
