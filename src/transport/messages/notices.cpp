#include "transport/messages/notices.hpp"

#include <algorithm>
#include <utility>

#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// Between ranks of one node no other messages of an exchange travel, so any tag does.
constexpr int notice_tag = 0;
constexpr std::int64_t notice_bytes = sizeof(OfferNotice);

std::vector<std::int64_t> bytes_of(const std::vector<bool>& ranks) {
  std::vector<std::int64_t> bytes(ranks.size());
  std::ranges::transform(ranks, bytes.begin(), [](bool any) { return any ? notice_bytes : 0; });
  return bytes;
}

std::size_t count(const std::vector<bool>& ranks) {
  return static_cast<std::size_t>(std::ranges::count(ranks, true));
}

}  // namespace

Notices::Notices(std::vector<bool> to, std::vector<bool> from)
    : to_(std::move(to)), from_(std::move(from)), told_(from_.size()) {
  sending_.resize(std::ssize(to_));
  receiving_.resize(std::ssize(from_));
  outgoing_.resize(count(to_));
  incoming_.resize(count(from_));
  outgoing_bytes_ = bytes_of(to_);
  incoming_bytes_ = bytes_of(from_);
}

void Notices::begin(const Communicator& comm, std::span<const OfferNotice> mine) {
  if (comm.foreign() != nullptr) {
    exchange_all(*comm.foreign(), mine);
  } else {
    begin_messages(comm, mine);
  }
}

void Notices::begin_messages(const Communicator& comm, std::span<const OfferNotice> mine) {
  for (std::size_t rank = 0; rank < from_.size(); ++rank) {
    const auto other = static_cast<int>(rank);
    if (from_[rank]) {
      check_mpi(MPI_Irecv(&told_[rank], notice_bytes, MPI_BYTE, other, notice_tag, comm, receiving_.at(rank)),
                "MPI_Irecv");
    }
    if (to_[rank]) {
      check_mpi(MPI_Isend(&mine[rank], notice_bytes, MPI_BYTE, other, notice_tag, comm, sending_.at(rank)),
                "MPI_Isend");
    }
  }
}

void Notices::exchange_all(const ForeignRanks& ranks, std::span<const OfferNotice> mine) {
  auto out = outgoing_.begin();
  for (std::size_t rank = 0; rank < to_.size(); ++rank) {
    if (to_[rank]) *out++ = mine[rank];
  }
  ranks.all_to_all(std::as_bytes(std::span(outgoing_)), outgoing_bytes_,
                   std::as_writable_bytes(std::span(incoming_)), incoming_bytes_);
  auto in = incoming_.begin();
  for (std::size_t rank = 0; rank < from_.size(); ++rank) {
    if (from_[rank]) told_[rank] = *in++;
  }
  next_ = 0;
}

std::optional<int> Notices::next() {
  if (next_) {
    while (*next_ < from_.size() && !from_[*next_]) ++*next_;
    if (*next_ == from_.size()) return std::nullopt;
    return static_cast<int>((*next_)++);
  }
  return receiving_.wait_for_any();
}

void Notices::end() {
  sending_.wait_for_all();
}

}  // namespace evenkeel
