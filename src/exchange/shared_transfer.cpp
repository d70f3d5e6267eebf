#include "exchange/shared_transfer.hpp"

#include <mpi.h>

#include <cstring>
#include <span>
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
    : memory_(memory), announcements_(sends.size()), announced_(sends.size()) {
  for (std::size_t rank = 0; rank < sends.size(); ++rank)
    announced_[rank] = memory.is_neighbour(static_cast<int>(rank)) && !sends[rank].empty();
  error_ = try_locally([&] { make_ready(sends); });
  if (error_) announcements_.assign(sends.size(), {});
}

void SharedTransfer::make_ready(const std::vector<BlockList>& sends) {
  const SharedHeap& heap = SharedHeap::of_process();
  std::vector<Extent> extents;
  std::vector<BlockList::Block> elsewhere;
  std::size_t staged = 0;  // bytes of the blocks elsewhere
  for (std::size_t rank = 0; rank < sends.size(); ++rank) {
    if (!announced_[rank]) continue;
    const auto first = extents.size();
    bool follows_staged = false;
    for (const BlockList::Block& block : sends[rank].blocks()) {
      const auto bytes = static_cast<std::int64_t>(block.bytes);
      const std::optional<SharedHeap::Place> place = heap.find(block.address, block.bytes);
      if (place) {
        extents.push_back({*place, bytes});
      } else {
        if (!follows_staged) extents.push_back({{-1, static_cast<std::int64_t>(staged)}, 0});
        extents.back().bytes += bytes;
        elsewhere.push_back(block);
        staged += block.bytes;
      }
      follows_staged = !place;
    }
    announcements_[rank] = {{-1, static_cast<std::int64_t>(first * sizeof(Extent))},
                            static_cast<std::int64_t>(extents.size() - first)};
  }
  if (extents.empty()) return;

  const std::size_t list_bytes = extents.size() * sizeof(Extent);
  outbox_ = SharedBuffer(list_bytes + staged);
  const SharedHeap::Place& base = outbox_.place();
  for (Announcement& told : announcements_) told.place = {base.file, base.offset + told.place.offset};
  for (Extent& extent : extents) {
    if (extent.place.file >= 0) continue;
    extent.place = {base.file, base.offset + static_cast<std::int64_t>(list_bytes) + extent.place.offset};
  }
  std::memcpy(outbox_.data(), extents.data(), list_bytes);
  std::byte* to = outbox_.data() + list_bytes;
  for (const BlockList::Block& block : elsewhere) {
    std::memcpy(to, block.address, block.bytes);
    to += block.bytes;
  }
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
  std::vector<Extent> extents(static_cast<std::size_t>(told.num_extents));
  const std::size_t list_bytes = extents.size() * sizeof(Extent);
  std::memcpy(extents.data(), memory_.view(rank, told.place, list_bytes).data(), list_bytes);
  BlockList from;
  for (const Extent& extent : extents) {
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
