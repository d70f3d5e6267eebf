#include "evenkeel/exchange/message_exchange.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

using Chunks = std::vector<MpiDatatype>;

// Chunks of every list but the one between a rank and itself.
std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, int self, std::int64_t max_bytes) {
  std::vector<Chunks> chunks(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (static_cast<int>(rank) != self) chunks[rank] = lists[rank].chunks(max_bytes);
  }
  return chunks;
}

void point_to_point(MPI_Comm comm, const std::vector<Chunks>& sends, const std::vector<Chunks>& receives) {
  std::vector<MPI_Request> requests;
  const auto post = [&](const std::vector<Chunks>& sides, auto&& start) {
    for (std::size_t rank = 0; rank < sides.size(); ++rank) {
      for (std::size_t chunk = 0; chunk < sides[rank].size(); ++chunk) {
        start(sides[rank][chunk].get(), static_cast<int>(rank), narrow<int>(chunk, "chunks of one message"),
              &requests.emplace_back(MPI_REQUEST_NULL));
      }
    }
  };
  post(receives, [&](MPI_Datatype type, int rank, int tag, MPI_Request* request) {
    check_mpi(MPI_Irecv(MPI_BOTTOM, 1, type, rank, tag, comm, request), "MPI_Irecv");
  });
  post(sends, [&](MPI_Datatype type, int rank, int tag, MPI_Request* request) {
    check_mpi(MPI_Isend(MPI_BOTTOM, 1, type, rank, tag, comm, request), "MPI_Isend");
  });
  check_mpi(MPI_Waitall(narrow<int>(requests.size(), "messages of one exchange"), requests.data(),
                        MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

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

void alltoallw_rounds(const boost::mpi::communicator& comm, const std::vector<Chunks>& sends,
                      const std::vector<Chunks>& receives) {
  const std::size_t mine = std::max(most_chunks(sends), most_chunks(receives));
  const auto rounds = boost::mpi::all_reduce(comm, mine, boost::mpi::maximum<std::size_t>());
  for (std::size_t round = 0; round < rounds; ++round) {
    const RoundArguments out(sends, round);
    const RoundArguments in(receives, round);
    check_mpi(MPI_Alltoallw(MPI_BOTTOM, out.counts.data(), out.displacements.data(), out.types.data(),
                            MPI_BOTTOM, in.counts.data(), in.displacements.data(), in.types.data(), comm),
              "MPI_Alltoallw");
  }
}

}  // namespace

void exchange_messages(const boost::mpi::communicator& comm, const std::vector<BlockList>& sends,
                       const std::vector<BlockList>& receives, const ExchangeOptions& options) {
  const int self = comm.rank();
  const std::vector<Chunks> outgoing = chunks_of(sends, self, options.max_message_bytes);
  const std::vector<Chunks> incoming = chunks_of(receives, self, options.max_message_bytes);
  sends[static_cast<std::size_t>(self)].copy_to(receives[static_cast<std::size_t>(self)]);
  if (options.path == ExchangePath::alltoallv) {
    alltoallw_rounds(comm, outgoing, incoming);
  } else {
    point_to_point(comm, outgoing, incoming);
  }
}

void broadcast_blocks(const boost::mpi::communicator& comm, const BlockList& blocks, int root,
                      const ExchangeOptions& options) {
  if (comm.size() == 1) return;
  for (const MpiDatatype& chunk : blocks.chunks(options.max_message_bytes)) {
    check_mpi(MPI_Bcast(MPI_BOTTOM, 1, chunk.get(), root, comm), "MPI_Bcast");
  }
}

}  // namespace evenkeel
