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

/// MPI counts are 32-bit, and one huge message stalls all others: longer ones go out in chunks of this many
/// bytes.
inline constexpr std::int64_t default_max_message_bytes = std::int64_t{1} << 30;

struct TransportSettings {
  ExchangePath path = ExchangePath::automatic;
  std::int64_t max_message_bytes = default_max_message_bytes;  ///< 1 .. 2^31-1, equal on all ranks
  TensorParallelCopies tp_copies = TensorParallelCopies::own;
  NodeAggregation aggregate = NodeAggregation::automatic;
};

/// How one rank's part of an exchange went from node to node.
struct MessageTraffic {
  std::int64_t between_nodes = 0;  ///< messages that this rank sent to ranks of other nodes
  std::int64_t passed_on = 0;      ///< bytes that it got from others of its node only to pass them on, or
                                   ///< from those who had got them so
};

/// Collective over `comm`: finds out whether the ranks of each node can read each other's memory, as the
/// first exchange over `comm` does otherwise. Columns made after this lie in the process's shared heap, on
/// every path, unless the program has supplied memory of its own (set_column_memory): neighbours can read
/// them there, and their pages are used again step after step, where the system would map and clear new ones.
/// Older columns cost the path through shared memory one more copy. Throws the same error on every rank when
/// `options` asks for shared memory and some rank cannot use it, or for leaders of ranks that MPI does not
/// connect.
void prepare_exchange(const Communicator& comm, const TransportSettings& options);

/// Collective over `comm` the first time: whether exchanges under `options` send no bytes in messages, since
/// every rank reads what it gets where its owner has it. The same on every rank. Throws as prepare_exchange
/// does.
[[nodiscard]] bool moves_without_messages(const Communicator& comm, const TransportSettings& options);

/// Collective over `comm`: `sends[r]` goes to rank r and fills `receives[r]` there; both have comm.size()
/// lists. What a rank sends itself is copied. Lists must match in bytes pairwise, which the transfer plan
/// guarantees. Before any byte travels, the ranks agree that all are ready: one all-reduce. Throws as
/// prepare_exchange does; also, on every rank, the `error` that a rank brings instead of its lists, and
/// LimitError when a rank runs out of memory or of files. Only MpiError may come from one rank alone.
///
/// Small messages between nodes go through leaders unless `options` has it otherwise (node_aggregation.hpp
/// says which and how). Leaders keep 2 * leader_staging_bytes for that from the first such exchange on; that
/// is all the memory it takes. With nodes of several ranks, each exchange then also compares sizes inside
/// each node: one MPI_Allgather of 16 bytes a rank of `comm`.
MessageTraffic exchange_messages(const Communicator& comm, const std::vector<BlockList>& sends,
                                 const std::vector<BlockList>& receives, const TransportSettings& options,
                                 const std::optional<ErrorReport>& error = {});

using Chunks = std::vector<MpiDatatype>;
using WantedRanks = std::function<bool(int rank)>;

/// Chunks of the lists between this rank and those that are wanted.
[[nodiscard]] std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, std::int64_t max_bytes,
                                            const WantedRanks& wanted);

/// One round of messages. Made ready first, which takes memory and is local; then it is begun and waited for,
/// which throws only when MPI fails.
class Messages {
 public:
  /// For `sends[r]` to those ranks that `to` wants and `receives[r]` from those that `from` wants.
  Messages(const std::vector<BlockList>& sends, const WantedRanks& to, const std::vector<BlockList>& receives,
           const WantedRanks& from, std::int64_t max_bytes);

  /// What is sent must stand as it is from here to the end of wait(), or of this object.
  void begin(MPI_Comm comm);
  void wait();

  /// Messages that this rank sends.
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
