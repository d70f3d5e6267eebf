#include "transport/shared/shared_transfer.hpp"

#include <string>

#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

// By rank: whether there is anything between this one and that neighbour.
std::vector<bool> between_neighbours(const NodeMemory& memory, const std::vector<BlockList>& lists) {
  std::vector<bool> any(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    any[rank] = memory.is_neighbour(static_cast<int>(rank)) && !lists[rank].empty();
  return any;
}

SharedOffer offer_to_neighbours(const NodeMemory& memory, const std::vector<BlockList>& sends) {
  static const BlockList nothing;
  const std::vector<bool> offered = between_neighbours(memory, sends);
  std::vector<const BlockList*> lists;
  for (std::size_t rank = 0; rank < sends.size(); ++rank)
    lists.push_back(offered[rank] ? &sends[rank] : &nothing);
  return SharedOffer(lists);
}

}  // namespace

SharedTransfer::SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends,
                               const std::vector<BlockList>& receives)
    : memory_(memory),
      sends_(sends),
      receives_(receives),
      offer_(offer_to_neighbours(memory, sends)),
      notices_(between_neighbours(memory, sends), between_neighbours(memory, receives)) {}

void SharedTransfer::run(const Communicator& comm) {
  offer_.fill();
  notices_.begin(comm, offer_.announcements());
  const std::int64_t total = total_bytes(receives_);
  const auto self = static_cast<std::size_t>(comm.rank());
  sends_[self].copy_to(receives_[self], total);
  while (const std::optional<int> rank = notices_.next()) {
    if (error_) continue;
    const BlockList& into = receives_[static_cast<std::size_t>(*rank)];
    error_ = try_locally([&] { fetch(*rank, notices_.told_by(*rank), into, total); });
  }
  notices_.end();
}

void SharedTransfer::fetch(int rank, const OfferNotice& told, const BlockList& into,
                           std::int64_t total_bytes) {
  const BlockList from = offered_bytes(memory_, rank, told);
  if (from.bytes() != into.bytes()) {
    throw MpiError("shared memory", "rank " + std::to_string(rank) + " has " + std::to_string(from.bytes()) +
                                        " bytes for this rank, which expects " +
                                        std::to_string(into.bytes()));
  }
  from.copy_to(into, total_bytes);
}

}  // namespace evenkeel
