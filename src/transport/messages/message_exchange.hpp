#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/exchange_words.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "mesh/mpi_call.hpp"
#include "transport/block_list.hpp"

namespace evenkeel {

/// Default maximum number of bytes per message; longer messages are sent in chunks. MPI counts are 32-bit,
/// and a single huge message would delay all others.
inline constexpr std::int64_t default_max_message_bytes = std::int64_t{1} << 30;

struct TransportSettings {
  ExchangePath path = ExchangePath::automatic;
  /// Maximum size of one message in bytes, 1 .. 2^31-1; equal on all ranks.
  std::int64_t max_message_bytes = default_max_message_bytes;
  TensorParallelCopies tp_copies = TensorParallelCopies::own;
  NodeAggregation aggregate = NodeAggregation::automatic;
};

/// Traffic of one rank in one exchange.
struct MessageTraffic {
  std::int64_t between_nodes = 0;  ///< number of messages that this rank sent to ranks of other nodes
  /// Number of bytes that this rank received from other ranks of its node because messages between nodes go
  /// through leaders (LeaderRounds).
  std::int64_t forwarded = 0;
};

/// Collective over `comm`: determines whether the ranks of each node can read each other's memory; without
/// this call, the first exchange over `comm` does so.
///
/// Columns allocated afterwards are in the process's shared heap, regardless of the exchange path, unless the
/// program has set its own memory (set_column_memory). The other ranks of the node can read columns in that
/// heap. The heap reuses its pages in every step; otherwise, the system would have to map and clear new
/// pages. Exchanges through shared memory copy columns outside that heap one more time.
///
/// Throws the same error on every rank: the error of a rank that cannot use shared memory, if `options`
/// requires it; ConfigError if `options` requires leaders and MPI does not connect the ranks; LimitError if a
/// rank runs out of memory.
void prepare_exchange(const Communicator& comm, const TransportSettings& options);

/// Returns whether exchanges with `options` do not send bytes in messages, because every rank reads its
/// bytes from the owner's memory. The result is the same on every rank. The first call is collective over
/// `comm`. Throws, on every rank, the error of a rank that cannot use shared memory, if `options` requires
/// it.
[[nodiscard]] bool moves_without_messages(const Communicator& comm, const TransportSettings& options);

/// Sends `sends[r]` to each rank r, and receives `receives[r]` from it. Collective over `comm`; both vectors
/// have comm.size() lists. Bytes that a rank sends to itself are copied. The sizes of the lists must match
/// pairwise, which the transfer plan guarantees. Before any byte is transferred, one all-reduce confirms that
/// all ranks are ready.
///
/// Throws the same error on every rank: the `error` that a rank passes instead of its lists; LimitError if a
/// rank runs out of memory or open files; the error of a rank that cannot use shared memory, if `options`
/// requires it. Only MpiError may be thrown by one rank alone.
///
/// Small messages between nodes go through leaders unless `options` disables this (see
/// node_aggregation.hpp). The first call for which leaders are allowed, of this function or of
/// prepare_exchange(), allocates 2 * leader_staging_bytes on each leader. A leader keeps this memory and does
/// not need more. If leaders are allowed, there are several nodes, and at least one node has several ranks,
/// each exchange also gathers the sizes of its lists inside each node: one MPI_Allgather of 16 bytes per rank
/// of `comm`.
MessageTraffic exchange_messages(const Communicator& comm, const std::vector<BlockList>& sends,
                                 const std::vector<BlockList>& receives, const TransportSettings& options,
                                 const std::optional<ErrorReport>& error = {});

using Chunks = std::vector<MpiDatatype>;
using WantedRanks = std::function<bool(int rank)>;

/// Splits the lists of the ranks for which `wanted` returns true into chunks of at most `max_bytes` bytes.
/// The other ranks get no chunks.
[[nodiscard]] std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, std::int64_t max_bytes,
                                            const WantedRanks& wanted);

/// One round of point-to-point messages. The constructor is local and allocates all memory; begin() and
/// wait() throw only if MPI fails.
class Messages {
 public:
  /// Prepares to send `sends[r]` to each rank r for which `to` returns true, and to receive `receives[r]`
  /// from each rank r for which `from` returns true.
  Messages(const std::vector<BlockList>& sends, const WantedRanks& to, const std::vector<BlockList>& receives,
           const WantedRanks& from, std::int64_t max_bytes);

  /// Starts all messages. The sent bytes must not change until wait() returns or this object is destroyed.
  void begin(MPI_Comm comm);
  void wait();

  /// Returns the number of messages that this rank sends.
  [[nodiscard]] std::int64_t num_sent() const noexcept { return num_sent_; }

 private:
  template <typename Start>
  static void post(const std::vector<Chunks>& sides, OpenRequests& requests, Start&& start);
  static std::int64_t count(const std::vector<Chunks>& sides);

  std::vector<Chunks> outgoing_;
  std::vector<Chunks> incoming_;
  OpenRequests receiving_{OpenRequests::Kind::receives};
  OpenRequests sending_{OpenRequests::Kind::others};
  std::int64_t num_sent_ = 0;
};

}  // namespace evenkeel
