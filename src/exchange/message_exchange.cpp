#include "evenkeel/exchange/message_exchange.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <deque>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/batch/column_memory.hpp"
#include "evenkeel/exchange/shared_heap.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "exchange/leader_rounds.hpp"
#include "exchange/messages.hpp"
#include "exchange/node_memory.hpp"
#include "exchange/shared_transfer.hpp"

namespace evenkeel {
namespace {

void copy_own_part(int rank, const std::vector<BlockList>& sends, const std::vector<BlockList>& receives) {
  const auto self = static_cast<std::size_t>(rank);
  sends[self].copy_to(receives[self], total_bytes(receives));
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

MessageTraffic alltoallw_rounds(const boost::mpi::communicator& comm, const std::vector<BlockList>& sends,
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
  const NodeGroup& group = NodeGroup::of(comm);
  MessageTraffic traffic;
  for (std::size_t rank = 0; rank < outgoing.size(); ++rank) {
    if (!group.on_this_node(static_cast<int>(rank))) traffic.between_nodes += std::ssize(outgoing[rank]);
  }
  return traffic;
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

// The nodes of `comm` and, where messages may go through leaders, what that takes.
NodeGroup& group_for(const boost::mpi::communicator& comm, const ExchangeOptions& options) {
  NodeGroup& group = NodeGroup::of(comm);
  const bool aggregates =
      options.aggregate != NodeAggregation::never && options.path != ExchangePath::alltoallv;
  if (aggregates) group.reserve(comm);
  return group;
}

/// How bytes get from rank to rank inside a node: out of shared memory, or else in messages.
class InsideNode {
 public:
  InsideNode(const boost::mpi::communicator& comm, const NodeGroup& group, NodeMemory* memory,
             std::int64_t max_bytes)
      : comm_(comm), group_(group), memory_(memory), max_bytes_(max_bytes) {}

  /// Collective over the node: moves what the lists have for its ranks, also from this rank to itself. The
  /// senders' bytes must stand until end().
  void move(const std::vector<BlockList>& sends, const std::vector<BlockList>& receives) {
    const auto own_part = [&] { copy_own_part(comm_.rank(), sends, receives); };
    if (memory_ != nullptr) {
      transfers_.emplace_back(*memory_, sends).run(comm_, receives, own_part);
      return;
    }
    const auto neighbour = [&](int rank) { return rank != comm_.rank() && group_.on_this_node(rank); };
    Messages messages(comm_, sends, neighbour, receives, neighbour, max_bytes_);
    own_part();
    messages.wait();
  }

  /// Collective over all ranks: throws what went wrong on any.
  void end() const {
    if (memory_ == nullptr) return;
    const auto failed =
        std::ranges::find_if(transfers_, [](const SharedTransfer& t) { return t.error().has_value(); });
    // Also tells every owner that its neighbours have fetched what they need.
    fail_together(comm_, failed == transfers_.end() ? std::nullopt : failed->error());
  }

 private:
  const boost::mpi::communicator& comm_;
  const NodeGroup& group_;
  NodeMemory* memory_;
  std::int64_t max_bytes_;
  std::deque<SharedTransfer> transfers_;
};

/// Bytes that others of this node bring in a round through leaders.
std::int64_t bytes_from_others(const LeaderRounds::Lists& round, int rank) {
  return total_bytes(round.receives) - round.receives[static_cast<std::size_t>(rank)].bytes();
}

// Each round inside the node runs while messages between nodes travel.
MessageTraffic over_nodes(const boost::mpi::communicator& comm, NodeMemory* memory,
                          const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                          const ExchangeOptions& options) {
  const NodeGroup& group = group_for(comm, options);
  const LeaderPlan plan = group.plan(sends, receives, options.aggregate);
  InsideNode inside(comm, group, memory, options.max_message_bytes);
  const auto directly = [&](const std::vector<int>& by) {
    return [&](int rank) {
      return !group.on_this_node(rank) && by[static_cast<std::size_t>(rank)] == LeaderPlan::direct;
    };
  };
  Messages direct(comm, sends, directly(plan.send_by), receives, directly(plan.receive_by),
                  options.max_message_bytes);
  MessageTraffic traffic{direct.num_sent(), 0};
  if (!plan.any()) {
    inside.move(sends, receives);
  } else {
    const LeaderRounds rounds(plan, group, sends, receives);
    inside.move(rounds.collect.sends, rounds.collect.receives);
    const auto all = [](int) { return true; };
    Messages between(comm, rounds.between.sends, all, rounds.between.receives, all,
                     options.max_message_bytes);
    inside.move(sends, receives);
    between.wait();
    inside.move(rounds.hand_on.sends, rounds.hand_on.receives);
    traffic.between_nodes += between.num_sent();
    traffic.passed_on =
        bytes_from_others(rounds.collect, comm.rank()) + bytes_from_others(rounds.hand_on, comm.rank());
  }
  direct.wait();
  inside.end();
  return traffic;
}

}  // namespace

void prepare_exchange(const boost::mpi::communicator& comm, const ExchangeOptions& options) {
  static_cast<void>(shared_memory(comm, options.path));
  if (comm.size() > 1) static_cast<void>(group_for(comm, options));
  set_column_memory(SharedHeap::of_process());
}

MessageTraffic exchange_messages(const boost::mpi::communicator& comm, const std::vector<BlockList>& sends,
                                 const std::vector<BlockList>& receives, const ExchangeOptions& options) {
  MessageTraffic traffic;
  if (comm.size() == 1) {
    copy_own_part(comm.rank(), sends, receives);
  } else if (options.path == ExchangePath::alltoallv) {
    traffic = alltoallw_rounds(comm, sends, receives, options.max_message_bytes);
    copy_own_part(comm.rank(), sends, receives);
  } else {
    traffic = over_nodes(comm, shared_memory(comm, options.path), sends, receives, options);
  }
  return traffic;
}

}  // namespace evenkeel
