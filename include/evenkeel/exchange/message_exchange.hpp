#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <vector>

#include "evenkeel/exchange/block_list.hpp"
#include "evenkeel/exchange/exchange_path.hpp"

namespace evenkeel {

/// MPI counts are 32-bit, and one huge message stalls all others: longer ones go out in chunks of this many
/// bytes.
inline constexpr std::int64_t default_max_message_bytes = std::int64_t{1} << 30;

struct ExchangeOptions {
  ExchangePath path = ExchangePath::automatic;
  std::int64_t max_message_bytes = default_max_message_bytes;  ///< 1 .. 2^31-1, equal on all ranks
  TensorParallelCopies tp_copies = TensorParallelCopies::own;
};

/// Collective over `comm`: finds out whether the ranks of each node can read each other's memory, as the
/// first exchange over `comm` does otherwise. Columns made after this lie in the process's shared heap, on
/// every path: neighbours can read them there, and their pages are used again step after step, where the
/// system would map and clear new ones. Older columns cost the path through shared memory one more copy.
/// Throws the same error on every rank when `options` asks for shared memory and some rank cannot use it.
void prepare_exchange(const boost::mpi::communicator& comm, const ExchangeOptions& options);

/// Collective over `comm`: `sends[r]` goes to rank r and fills `receives[r]` there; both have comm.size()
/// lists. What a rank sends itself is copied. Lists must match in bytes pairwise, which the transfer plan
/// guarantees. Throws as prepare_exchange does; on the path through shared memory also, on every rank, when a
/// rank runs out of memory or of files.
void exchange_messages(const boost::mpi::communicator& comm, const std::vector<BlockList>& sends,
                       const std::vector<BlockList>& receives, const ExchangeOptions& options);

}  // namespace evenkeel
