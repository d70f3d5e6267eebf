#include "exchange/shared_transfer.hpp"

#include <mpi.h>

#include <algorithm>
#include <string>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// Between ranks of one node no other messages of an exchange travel, so any tag does.
constexpr int announcement_tag = 0;

}  // namespace

SharedTransfer::SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends)
    : memory_(memory), announcements_(sends.size()) {
  static const BlockList nothing;
  std::vector<const BlockList*> lists;
  for (std::size_t rank = 0; rank < sends.size(); ++rank) {
    announced_.push_back(memory.is_neighbour(static_cast<int>(rank)) && !sends[rank].empty());
    lists.push_back(announced_.back() ? &sends[rank] : &nothing);
  }
  error_ = try_locally([&] {
    offer_ = SharedOffer(lists);
    std::ranges::copy(offer_.announcements(), announcements_.begin());
  });
}

void SharedTransfer::run(const boost::mpi::communicator& comm, const std::vector<BlockList>& receives,
                         const std::function<void()>& meanwhile) {
  std::vector<Announcement> told(receives.size());
  std::vector<MPI_Request> sending;
  std::vector<MPI_Request> receiving(receives.size(), MPI_REQUEST_NULL);
  for (std::size_t rank = 0; rank < receives.size(); ++rank) {
    const auto other = static_cast<int>(rank);
    if (memory_.is_neighbour(other) && !receives[rank].empty()) {
      check_mpi(MPI_Irecv(&told[rank], sizeof(Announcement), MPI_BYTE, other, announcement_tag, comm,
                          &receiving[rank]),
                "MPI_Irecv");
    }
    if (announced_[rank]) {
      check_mpi(MPI_Isend(&announcements_[rank], sizeof(Announcement), MPI_BYTE, other, announcement_tag,
                          comm, &sending.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Isend");
    }
  }
  meanwhile();
  const int count = narrow<int>(receiving.size(), "messages of one exchange");
  for (int rank = 0;;) {
    check_mpi(MPI_Waitany(count, receiving.data(), &rank, MPI_STATUS_IGNORE), "MPI_Waitany");
    if (rank == MPI_UNDEFINED) break;
    const auto at = static_cast<std::size_t>(rank);
    // An owner that failed says so itself when errors are compared.
    if (error_ || told[at].num_extents < 0) continue;
    error_ = try_locally([&] { fetch(rank, told[at], receives[at], total_bytes(receives)); });
  }
  check_mpi(MPI_Waitall(narrow<int>(sending.size(), "messages of one exchange"), sending.data(),
                        MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

void SharedTransfer::fetch(int rank, const Announcement& told, const BlockList& into,
                           std::int64_t total_bytes) {
  BlockList from;
  for (const Extent& extent : read_extents(memory_, rank, told)) {
    const auto bytes = memory_.view(rank, extent.place, static_cast<std::size_t>(extent.bytes));
    from.add(bytes.data(), bytes.size());
  }
  if (from.bytes() != into.bytes()) {
    throw MpiError("shared memory", "rank " + std::to_string(rank) + " has " + std::to_string(from.bytes()) +
                                        " bytes for this rank, which expects " +
                                        std::to_string(into.bytes()));
  }
  from.copy_to(into, total_bytes);
}

}  // namespace evenkeel
