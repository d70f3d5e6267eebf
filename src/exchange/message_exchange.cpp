#include "evenkeel/exchange/message_exchange.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/batch/column_memory.hpp"
#include "evenkeel/exchange/shared_heap.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "exchange/node_memory.hpp"
#include "exchange/shared_transfer.hpp"

namespace evenkeel {
namespace {

using Chunks = std::vector<MpiDatatype>;

void copy_own_part(int rank, const std::vector<BlockList>& sends, const std::vector<BlockList>& receives) {
  const auto self = static_cast<std::size_t>(rank);
  sends[self].copy_to(receives[self], total_bytes(receives));
}

// Chunks of the lists between this rank and those that `wanted` names.
template <typename Wanted>
std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, std::int64_t max_bytes, Wanted&& wanted) {
  std::vector<Chunks> chunks(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (wanted(static_cast<int>(rank))) chunks[rank] = lists[rank].chunks(max_bytes);
  }
  return chunks;
}

/// One exchange's messages under way: what is sent and received is fixed from construction to wait().
class Messages {
 public:
  template <typename Wanted>
  Messages(MPI_Comm comm, const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
           std::int64_t max_bytes, Wanted&& wanted)
      : outgoing_(chunks_of(sends, max_bytes, wanted)), incoming_(chunks_of(receives, max_bytes, wanted)) {
    post(incoming_, [&](MPI_Datatype type, int rank, int tag, MPI_Request* request) {
      check_mpi(MPI_Irecv(MPI_BOTTOM, 1, type, rank, tag, comm, request), "MPI_Irecv");
    });
    post(outgoing_, [&](MPI_Datatype type, int rank, int tag, MPI_Request* request) {
      check_mpi(MPI_Isend(MPI_BOTTOM, 1, type, rank, tag, comm, request), "MPI_Isend");
    });
  }

  void wait() {
    check_mpi(MPI_Waitall(narrow<int>(requests_.size(), "messages of one exchange"), requests_.data(),
                          MPI_STATUSES_IGNORE),
              "MPI_Waitall");
  }

 private:
  template <typename Start>
  void post(const std::vector<Chunks>& sides, Start&& start) {
    for (std::size_t rank = 0; rank < sides.size(); ++rank) {
      for (std::size_t chunk = 0; chunk < sides[rank].size(); ++chunk) {
        start(sides[rank][chunk].get(), static_cast<int>(rank), narrow<int>(chunk, "chunks of one message"),
              &requests_.emplace_back(MPI_REQUEST_NULL));
      }
    }
  }

  std::vector<Chunks> outgoing_;
  std::vector<Chunks> incoming_;
  std::vector<MPI_Request> requests_;
};

// Arguments of MPI_Alltoallw for round `round`: one whole chunk, or nothing, a rank.
struct RoundArguments {
  RoundArguments(const std::vector<Chunks>& sides, std::size_t round)
      : counts(sides.size(), 0), displacements(sides.size(), 0), types(sides.size(), MPI_BYTE) {
    for (std::size_t rank = 0; rank < sides.size(); ++rank) {
      if (round >= sides[rank].size()) continue;
      counts[rank] = 1;
      types[rank] = sides[rank][round].get();
    }
  }
  std::vector<int> counts;
  std::vector<int> displacements;
  std::vector<MPI_Datatype> types;
};

std::size_t most_chunks(const std::vector<Chunks>& sides) {
  std::size_t most = 0;
  for (const Chunks& chunks : sides) most = std::max(most, chunks.size());
  return most;
}

void alltoallw_rounds(const boost::mpi::communicator& comm, const std::vector<BlockList>& sends,
                      const std::vector<BlockList>& receives, std::int64_t max_bytes) {
  const auto is_other = [&](int rank) { return rank != comm.rank(); };
  const std::vector<Chunks> outgoing = chunks_of(sends, max_bytes, is_other);
  const std::vector<Chunks> incoming = chunks_of(receives, max_bytes, is_other);
  const std::size_t mine = std::max(most_chunks(outgoing), most_chunks(incoming));
  const auto rounds = boost::mpi::all_reduce(comm, mine, boost::mpi::maximum<std::size_t>());
  for (std::size_t round = 0; round < rounds; ++round) {
    const RoundArguments out(outgoing, round);
    const RoundArguments in(incoming, round);
    check_mpi(MPI_Alltoallw(MPI_BOTTOM, out.counts.data(), out.displacements.data(), out.types.data(),
                            MPI_BOTTOM, in.counts.data(), in.displacements.data(), in.types.data(), comm),
              "MPI_Alltoallw");
  }
}

// The memory that ranks of a node share, when `path` goes through it; the same answer on every rank.
NodeMemory* shared_memory(const boost::mpi::communicator& comm, ExchangePath path) {
  if (path != ExchangePath::shared_memory && path != ExchangePath::automatic) return nullptr;
  if (comm.size() == 1) return nullptr;
  NodeMemory& memory = NodeMemory::of(comm);
  if (!memory.obstacle()) return memory.any_neighbours() ? &memory : nullptr;
  if (path == ExchangePath::shared_memory) throw_error(*memory.obstacle());
  return nullptr;
}

void through_memory(const boost::mpi::communicator& comm, NodeMemory& memory,
                    const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                    std::int64_t max_bytes) {
  Messages to_other_nodes(comm, sends, receives, max_bytes,
                          [&](int rank) { return rank != comm.rank() && !memory.is_neighbour(rank); });
  SharedTransfer inside(memory, sends);
  inside.run(comm, receives, [&] { copy_own_part(comm.rank(), sends, receives); });
  to_other_nodes.wait();
  // Also tells every owner that its neighbours have fetched what they need.
  fail_together(comm, inside.error());
}

}  // namespace

void prepare_exchange(const boost::mpi::communicator& comm, const ExchangeOptions& options) {
  static_cast<void>(shared_memory(comm, options.path));
  set_column_memory(SharedHeap::of_process());
}

void exchange_messages(const boost::mpi::communicator& comm, const std::vector<BlockList>& sends,
                       const std::vector<BlockList>& receives, const ExchangeOptions& options) {
  if (NodeMemory* const memory = shared_memory(comm, options.path)) {
    through_memory(comm, *memory, sends, receives, options.max_message_bytes);
  } else if (options.path == ExchangePath::alltoallv) {
    alltoallw_rounds(comm, sends, receives, options.max_message_bytes);
    copy_own_part(comm.rank(), sends, receives);
  } else {
    Messages messages(comm, sends, receives, options.max_message_bytes,
                      [&](int rank) { return rank != comm.rank(); });
    copy_own_part(comm.rank(), sends, receives);
    messages.wait();
  }
}

}  // namespace evenkeel
