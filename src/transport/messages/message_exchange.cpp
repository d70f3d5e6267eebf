#include "transport/messages/message_exchange.hpp"

#include "base/narrow.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "transport/prepared_exchange.hpp"

namespace evenkeel {

MessageTraffic exchange_messages(const Communicator& comm, const std::vector<BlockList>& sends,
                                 const std::vector<BlockList>& receives, const TransportSettings& options,
                                 const std::optional<ErrorReport>& error) {
  PreparedExchange exchange(comm, sends, receives, options, error.has_value());
  exchange.agree(error);
  const MessageTraffic traffic = exchange.run();
  // This agreement also guarantees to every owner that its neighbors have finished reading its bytes.
  if (exchange.is_read_by_others()) fail_together(comm, exchange.error());
  return traffic;
}

std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, std::int64_t max_bytes,
                              const WantedRanks& wanted) {
  std::vector<Chunks> chunks(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (wanted(static_cast<int>(rank))) chunks[rank] = lists[rank].chunks(max_bytes);
  }
  return chunks;
}

Messages::Messages(const std::vector<BlockList>& sends, const WantedRanks& to,
                   const std::vector<BlockList>& receives, const WantedRanks& from, std::int64_t max_bytes)
    : outgoing_(chunks_of(sends, max_bytes, to)),
      incoming_(chunks_of(receives, max_bytes, from)),
      num_sent_(count(outgoing_)) {
  receiving_.resize(count(incoming_));
  sending_.resize(num_sent_);
}

std::int64_t Messages::count(const std::vector<Chunks>& sides) {
  std::int64_t messages = 0;
  for (const Chunks& chunks : sides) {
    (void)narrow<int>(chunks.size(), "chunks of one message", hint_for_large_steps);
    messages += std::ssize(chunks);
  }
  return messages;
}

void Messages::begin(MPI_Comm comm) {
  post(incoming_, receiving_, [&](MPI_Datatype type, int rank, int tag, MPI_Request* request) {
    check_mpi(MPI_Irecv(MPI_BOTTOM, 1, type, rank, tag, comm, request), "MPI_Irecv");
  });
  post(outgoing_, sending_, [&](MPI_Datatype type, int rank, int tag, MPI_Request* request) {
    check_mpi(MPI_Isend(MPI_BOTTOM, 1, type, rank, tag, comm, request), "MPI_Isend");
  });
}

void Messages::wait() {
  receiving_.wait_for_all();
  sending_.wait_for_all();
}

template <typename Start>
void Messages::post(const std::vector<Chunks>& sides, OpenRequests& requests, Start&& start) {
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < sides.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < sides[rank].size(); ++chunk) {
      start(sides[rank][chunk].get(), static_cast<int>(rank), static_cast<int>(chunk), requests.at(next++));
    }
  }
}

}  // namespace evenkeel
