#include "transport/prepared_exchange.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

void copy_own_part(int rank, const std::vector<BlockList>& sends, const std::vector<BlockList>& receives) {
  const auto self = static_cast<std::size_t>(rank);
  sends[self].copy_to(receives[self], total_bytes(receives));
}

// Returns the memory that the ranks of each node share if exchanges over `path` use it, otherwise null.
// Throws if `path` requires shared memory but it is unavailable; the error states the reason. The outcome is
// the same on every rank.
NodeMemory* shared_memory(const Communicator& comm, ExchangePath path) {
  if (path != ExchangePath::shared_memory && path != ExchangePath::automatic) return nullptr;
  if (comm.size() == 1) return nullptr;
  NodeMemory& memory = NodeMemory::get(comm);
  if (!memory.unavailability()) return memory.any_rank_has_neighbors() ? &memory : nullptr;
  if (path == ExchangePath::shared_memory) throw_error(*memory.unavailability());
  return nullptr;
}

// Returns whether messages between nodes may go through leaders.
bool may_use_leaders(const Communicator& comm, const TransportSettings& options) {
  return options.aggregate != NodeAggregation::never && options.path != ExchangePath::alltoallv &&
         comm.non_mpi_ranks() == nullptr;
}

// Returns the nodes of `comm`. If messages may go through leaders, also reserves the leaders' memory.
NodeGroup& prepare_node_group(const Communicator& comm, const TransportSettings& options) {
  NodeGroup& group = NodeGroup::get(comm);
  if (may_use_leaders(comm, options)) group.reserve(comm);
  return group;
}

// Selects the ranks of other nodes with which this rank exchanges messages directly. `by` has the leader for
// each rank, or LeaderPlan::direct.
WantedRanks direct_ranks(const NodeGroup& group, const std::vector<int>& by) {
  return [&group, &by](int rank) {
    return !group.is_on_this_node(rank) && by[static_cast<std::size_t>(rank)] == LeaderPlan::direct;
  };
}

// Selects the other ranks with which this rank exchanges bytes in messages instead of through shared memory.
WantedRanks message_ranks(const NodeMemory* memory, int rank) {
  return [memory, rank](int other) {
    return other != rank && (memory == nullptr || !memory->is_neighbor(other));
  };
}

const std::optional<ErrorReport> no_error;

bool every_rank(int /*rank*/) {
  return true;
}

std::int64_t max_chunks(const std::vector<Chunks>& sides) {
  std::size_t most = 0;
  for (const Chunks& chunks : sides) most = std::max(most, chunks.size());
  return static_cast<std::int64_t>(most);
}

// Returns the bytes that this rank receives from other ranks of its node in one round through leaders.
std::int64_t bytes_from_others(const LeaderRounds::Lists& round, int rank) {
  return total_bytes(round.receives) - round.receives[static_cast<std::size_t>(rank)].bytes();
}

}  // namespace

NodeRound::NodeRound(const NodeGroup& group, int rank, NodeMemory* memory,
                     const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                     std::int64_t max_bytes)
    : sends_(sends), receives_(receives) {
  if (memory != nullptr) {
    transfer_.emplace(*memory, sends, receives);
    return;
  }
  const auto neighbor = [&](int other) { return other != rank && group.is_on_this_node(other); };
  messages_.emplace(sends, neighbor, receives, neighbor, max_bytes);
}

void NodeRound::run(const Communicator& comm) {
  if (transfer_) {
    transfer_->run(comm);
    return;
  }
  messages_->begin(comm);
  copy_own_part(comm.rank(), sends_, receives_);
  messages_->wait();
}

const std::optional<ErrorReport>& NodeRound::error() const noexcept {
  return transfer_ ? transfer_->error() : no_error;
}

NodesExchange::LeaderTransfer::LeaderTransfer(const NodeGroup& group, const LeaderPlan& plan, int rank,
                                              NodeMemory* memory, const std::vector<BlockList>& sends,
                                              const std::vector<BlockList>& receives, std::int64_t max_bytes)
    : rounds(plan, group, sends, receives),
      collect(group, rank, memory, rounds.collect.sends, rounds.collect.receives, max_bytes),
      between(rounds.between.sends, every_rank, rounds.between.receives, every_rank, max_bytes),
      distribute(group, rank, memory, rounds.distribute.sends, rounds.distribute.receives, max_bytes) {}

NodesExchange::NodesExchange(const NodeGroup& group, const LeaderPlan& plan, int rank, NodeMemory* memory,
                             const std::vector<BlockList>& sends, const std::vector<BlockList>& receives,
                             std::int64_t max_bytes)
    : direct_(sends, direct_ranks(group, plan.sending_leaders), receives,
              direct_ranks(group, plan.receiving_leaders), max_bytes),
      inside_(group, rank, memory, sends, receives, max_bytes) {
  if (plan.uses_leaders()) leader_transfer_.emplace(group, plan, rank, memory, sends, receives, max_bytes);
}

// The rounds inside the node overlap with the messages between nodes.
MessageTraffic NodesExchange::run(const Communicator& comm) {
  direct_.begin(comm);
  MessageTraffic traffic{direct_.num_sent(), 0};
  if (!leader_transfer_) {
    inside_.run(comm);
  } else {
    leader_transfer_->collect.run(comm);
    leader_transfer_->between.begin(comm);
    inside_.run(comm);
    leader_transfer_->between.wait();
    leader_transfer_->distribute.run(comm);
    traffic.between_nodes += leader_transfer_->between.num_sent();
    traffic.forwarded = bytes_from_others(leader_transfer_->rounds.collect, comm.rank()) +
                        bytes_from_others(leader_transfer_->rounds.distribute, comm.rank());
  }
  direct_.wait();
  return traffic;
}

const std::optional<ErrorReport>& NodesExchange::error() const noexcept {
  if (leader_transfer_ && leader_transfer_->collect.error()) return leader_transfer_->collect.error();
  if (leader_transfer_ && leader_transfer_->distribute.error()) return leader_transfer_->distribute.error();
  return inside_.error();
}

void AlltoallwExchange::Arguments::set(const std::vector<Chunks>& sides, std::int64_t round) {
  const auto at = static_cast<std::size_t>(round);
  for (std::size_t rank = 0; rank < sides.size(); ++rank) {
    const bool has_chunk = at < sides[rank].size();
    counts[rank] = has_chunk ? 1 : 0;
    types[rank] = has_chunk ? sides[rank][at].get() : MPI_BYTE;
  }
}

AlltoallwExchange::AlltoallwExchange(const NodeGroup& group, int rank, const std::vector<BlockList>& sends,
                                     const std::vector<BlockList>& receives, std::int64_t max_bytes)
    : sends_(sends), receives_(receives), out_(sends.size()), in_(receives.size()) {
  const auto is_other = [&](int other) { return other != rank; };
  outgoing_ = chunks_of(sends, max_bytes, is_other);
  incoming_ = chunks_of(receives, max_bytes, is_other);
  rounds_ = std::max(max_chunks(outgoing_), max_chunks(incoming_));
  for (std::size_t other = 0; other < outgoing_.size(); ++other) {
    if (!group.is_on_this_node(static_cast<int>(other)))
      traffic_.between_nodes += std::ssize(outgoing_[other]);
  }
}

MessageTraffic AlltoallwExchange::run(const Communicator& comm, std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    out_.set(outgoing_, round);
    in_.set(incoming_, round);
    const Waiting waiting("MPI_Alltoallw");
    check_mpi(MPI_Alltoallw(MPI_BOTTOM, out_.counts.data(), out_.displacements.data(), out_.types.data(),
                            MPI_BOTTOM, in_.counts.data(), in_.displacements.data(), in_.types.data(), comm),
              "MPI_Alltoallw");
  }
  copy_own_part(comm.rank(), sends_, receives_);
  return traffic_;
}

PreparedExchange::PreparedExchange(const Communicator& comm, const std::vector<BlockList>& sends,
                                   const std::vector<BlockList>& receives, const TransportSettings& options,
                                   bool failed)
    : comm_(comm),
      sends_(sends),
      receives_(receives),
      uses_alltoallw_(options.path == ExchangePath::alltoallv && comm.non_mpi_ranks() == nullptr) {
  if (comm.size() == 1) return;
  memory_ = shared_memory(comm, options.path);
  NodeGroup& group = prepare_node_group(comm, options);
  if (may_use_leaders(comm, options)) group.gather_sizes(sends, receives, options.aggregate);
  if (failed) return;
  work_([&] {
    if (comm.non_mpi_ranks() != nullptr) {
      staged_.emplace(group, comm.rank(), memory_, sends, receives);
      return;
    }
    outgoing_.emplace(sends, message_ranks(memory_, comm.rank()));
    incoming_.emplace(receives, message_ranks(memory_, comm.rank()));
    if (uses_alltoallw_) {
      alltoallw_.emplace(group, comm.rank(), outgoing_->lists(), incoming_->lists(),
                         options.max_message_bytes);
    } else {
      nodes_.emplace(group, group.plan(options.aggregate), comm.rank(), memory_, outgoing_->lists(),
                     incoming_->lists(), options.max_message_bytes);
    }
  });
}

void PreparedExchange::agree(const std::optional<ErrorReport>& mine) {
  const std::optional<ErrorReport>& error = mine ? mine : work_.error();
  if (!uses_alltoallw_ || comm_.size() == 1) {
    fail_together(comm_, error);
    return;
  }
  // One all-reduce finds the maximum number of MPI_Alltoallw calls that any rank needs, and the lowest failed
  // rank.
  std::array<std::int64_t, 2> most{alltoallw_ ? alltoallw_->rounds() : 0,
                                   error ? -comm_.rank() : -comm_.size()};
  comm_.all_reduce(most, ReduceOp::max);
  if (most[1] != -comm_.size()) fail_with_report_of(comm_, static_cast<int>(-most[1]), error);
  rounds_ = most[0];
}

MessageTraffic PreparedExchange::run() {
  if (staged_) return staged_->run(comm_);
  if (comm_.size() == 1) {
    copy_own_part(comm_.rank(), sends_, receives_);
    return {};
  }
  outgoing_->gather();
  const MessageTraffic traffic = alltoallw_ ? alltoallw_->run(comm_, rounds_) : nodes_->run(comm_);
  incoming_->scatter();
  return traffic;
}

const std::optional<ErrorReport>& PreparedExchange::error() const noexcept {
  if (staged_) return staged_->error();
  return nodes_ ? nodes_->error() : no_error;
}

bool moves_without_messages(const Communicator& comm, const TransportSettings& options) {
  if (comm.size() == 1) return true;
  return shared_memory(comm, options.path) != nullptr && NodeGroup::get(comm).leaders().num_nodes() == 1;
}

void prepare_exchange(const Communicator& comm, const TransportSettings& options) {
  if (comm.non_mpi_ranks() != nullptr && options.aggregate == NodeAggregation::always) {
    throw ConfigError("exchange.aggregate", "is always, but node leaders are used only with MPI",
                      "Set it to auto or never if the ranks are not connected by MPI");
  }
  static_cast<void>(shared_memory(comm, options.path));
  if (comm.size() > 1) static_cast<void>(prepare_node_group(comm, options));
  run_together(comm, [] {
    if (column_memory() == &standard_heap()) set_column_memory(SharedHeap::instance());
  });
}

}  // namespace evenkeel
