#include "transport/shared_transfer.hpp"

#include <mpi.h>

#include <string>

#include "base/narrow.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// Between ranks of one node no other messages of an exchange travel, so any tag does.
constexpr int announcement_tag = 0;

}  // namespace

SharedTransfer::SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends,
                               const std::vector<BlockList>& receives)
    : memory_(memory), sends_(sends), receives_(receives), told_(receives.size()) {
  static const BlockList nothing;
  std::vector<const BlockList*> lists;
  for (std::size_t rank = 0; rank < sends.size(); ++rank) {
    announced_.push_back(memory.is_neighbour(static_cast<int>(rank)) && !sends[rank].empty() ? 1 : 0);
    lists.push_back(announced_.back() != 0 ? &sends[rank] : &nothing);
  }
  offer_ = SharedOffer(lists);
  sending_.reserve(sends.size());
  receiving_.assign(static_cast<std::size_t>(narrow<int>(receives.size(), "messages of one exchange")),
                    MPI_REQUEST_NULL);
}

void SharedTransfer::begin(const Communicator& comm) {
  offer_.fill();
  for (std::size_t rank = 0; rank < receives_.size(); ++rank) {
    const auto other = static_cast<int>(rank);
    if (memory_.is_neighbour(other) && !receives_[rank].empty()) {
      check_mpi(MPI_Irecv(&told_[rank], sizeof(OfferNotice), MPI_BYTE, other, announcement_tag, comm,
                          &receiving_[rank]),
                "MPI_Irecv");
    }
    if (announced_[rank] != 0) {
      check_mpi(MPI_Isend(&offer_.announcements()[rank], sizeof(OfferNotice), MPI_BYTE, other,
                          announcement_tag, comm, &sending_.emplace_back(MPI_REQUEST_NULL)),
                "MPI_Isend");
    }
  }
}

void SharedTransfer::run(const Communicator& comm) {
  begin(comm);
  const std::int64_t total = total_bytes(receives_);
  const auto self = static_cast<std::size_t>(comm.rank());
  sends_[self].copy_to(receives_[self], total);
  for (int rank = 0;;) {
    check_mpi(MPI_Waitany(static_cast<int>(receiving_.size()), receiving_.data(), &rank, MPI_STATUS_IGNORE),
              "MPI_Waitany");
    if (rank == MPI_UNDEFINED) break;
    if (error_) continue;
    const auto at = static_cast<std::size_t>(rank);
    error_ = try_locally([&] { fetch(rank, told_[at], receives_[at], total); });
  }
  check_mpi(MPI_Waitall(static_cast<int>(sending_.size()), sending_.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

void SharedTransfer::fetch(int rank, const OfferNotice& told, const BlockList& into,
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
