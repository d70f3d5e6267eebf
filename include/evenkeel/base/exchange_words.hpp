#pragma once

#include <cstdint>

// The words of the configuration's section `exchange`. They stand here since both know them: the
// configuration, which knows no MPI, and the rooms that carry an exchange out.
namespace evenkeel {

/// How tokens get from owners to consumers. All paths deliver the same bytes.
enum class ExchangePath : std::uint8_t {
  automatic,       ///< shared memory where ranks of a node can read each other's, else point-to-point
  point_to_point,  ///< non-blocking messages in derived datatypes, one or more a pair of ranks
  alltoallv,       ///< MPI_Alltoallw over the same datatypes
  shared_memory,   ///< inside a node consumers copy out of the owners' memory; between nodes point-to-point
};

/// Whether the ranks of a node send what goes to another node in one message, through a rank that leads them
/// or one message each. Not on the path alltoallv, which is one call anyway.
enum class NodeAggregation : std::uint8_t {
  automatic,  ///< for each pair of nodes: through leaders when their messages are small in the mean
  always,     ///< through leaders whenever there are two messages or more and they fit the leaders' memory
  never,
};

/// Up to this many bytes in the mean, messages from one node to another are small.
inline constexpr std::int64_t small_message_bytes = std::int64_t{4} << 10;

/// Whose tensors the tensor-parallel ranks of one place have, all but the first.
enum class TensorParallelCopies : std::uint8_t {
  own,     ///< a copy each
  shared,  ///< those of the first, where all are on one node: to be read only, or copied when written
};

}  // namespace evenkeel
