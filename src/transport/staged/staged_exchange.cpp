#include "transport/staged/staged_exchange.hpp"

#include <utility>

namespace evenkeel {
namespace {

const std::optional<ErrorReport> no_failure;

// Returns, for each rank, whether the bytes for that rank go through all_to_all.
std::vector<bool> ranks_sent_to(const NodeMemory* memory, int rank, std::size_t ranks) {
  std::vector<bool> sent(ranks);
  for (std::size_t other = 0; other < ranks; ++other) {
    const auto number = static_cast<int>(other);
    sent[other] = number != rank && (memory == nullptr || !memory->is_neighbor(number));
  }
  return sent;
}

}  // namespace

StagedExchange::Staging::Staging(const std::vector<BlockList>& lists, const std::vector<bool>& is_sent)
    : bytes_of(lists.size()) {
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    bytes_of[rank] = is_sent[rank] ? lists[rank].bytes() : 0;
    total += bytes_of[rank];
  }
  size = static_cast<std::size_t>(total);
  bytes = allocate_heap_bytes(size);  // the shared heap reuses its pages in every step
}

std::vector<BlockList> StagedExchange::Staging::blocks_by_rank() const {
  std::vector<BlockList> places(bytes_of.size());
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < bytes_of.size(); ++rank) {
    const auto bytes_of_rank = static_cast<std::size_t>(bytes_of[rank]);
    places[rank].add(buffer().subspan(begin, bytes_of_rank).data(), bytes_of_rank);
    begin += bytes_of_rank;
  }
  return places;
}

StagedExchange::StagedExchange(const NodeGroup& group, int rank, NodeMemory* memory,
                               const std::vector<BlockList>& sends, const std::vector<BlockList>& receives)
    : sends_(sends),
      receives_(receives),
      is_sent_(ranks_sent_to(memory, rank, sends.size())),
      out_(sends, is_sent_),
      in_(receives, is_sent_),
      out_places_(out_.blocks_by_rank()),
      in_places_(in_.blocks_by_rank()) {
  if (memory != nullptr) transfer_.emplace(*memory, sends, receives);
  for (std::size_t other = 0; other < sends.size(); ++other) {
    if (out_.bytes_of[other] > 0 && !group.is_on_this_node(static_cast<int>(other))) ++traffic_.between_nodes;
  }
}

MessageTraffic StagedExchange::run(const Communicator& comm) {
  const std::int64_t total = total_bytes(receives_);
  for (std::size_t rank = 0; rank < sends_.size(); ++rank) {
    if (is_sent_[rank]) sends_[rank].copy_to(out_places_[rank], total);
  }
  comm.non_mpi_ranks()->all_to_all(out_.buffer(), out_.bytes_of, in_.buffer(), in_.bytes_of);
  for (std::size_t rank = 0; rank < receives_.size(); ++rank) {
    if (is_sent_[rank]) in_places_[rank].copy_to(receives_[rank], total);
  }
  const auto self = static_cast<std::size_t>(comm.rank());
  if (transfer_) {
    transfer_->run(comm);
  } else {
    sends_[self].copy_to(receives_[self], total);
  }
  return traffic_;
}

const std::optional<ErrorReport>& StagedExchange::error() const noexcept {
  return transfer_ ? transfer_->error() : no_failure;
}

StagedViews::StagedViews(const std::vector<BlockList>& lists, const WantedRanks& wanted) : lists_(lists) {
  const auto is_staged = [&](std::size_t rank) {
    return !lists[rank].is_plain() && wanted(static_cast<int>(rank));
  };
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (!is_staged(rank)) continue;
    for (const BlockList::Block& block : lists[rank].blocks())
      if (block.view != BlockList::plain) viewed_.add(block, lists[rank].views());
  }
  if (!has_viewed_blocks()) return;
  const auto size = static_cast<std::size_t>(viewed_.bytes());
  bytes_ = allocate_heap_bytes(size);  // the shared heap reuses its pages in every step
  staged_.add(bytes_.get(), size);
  plain_ = lists;
  const std::byte* next = bytes_.get();
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (is_staged(rank)) make_plain(plain_[rank], next);
}

void StagedViews::make_plain(BlockList& list, const std::byte*& staging) const {
  BlockList plain;
  for (const BlockList::Block& block : list.blocks()) {
    plain.add(block.view == BlockList::plain ? block.address : staging, block.bytes);
    if (block.view != BlockList::plain) staging += block.bytes;
  }
  list = std::move(plain);
}

}  // namespace evenkeel
