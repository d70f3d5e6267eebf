#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "exchange/samples/exchange_figures.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "plan/transfer/value_pool.hpp"
#include "transport/block_list.hpp"
#include "transport/prepared_exchange.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

/// The way of fields of which equal values lie once a node, one rank's part. Of each such field the lowest
/// rank of a node that is handed it is its **holder** there: owners send it every distinct value that ranks
/// of the node need, one after the other in one column (a ValuePool), beside all else that they send. Then
/// the other ranks of the node read that column or, where they cannot read each other's memory, copy what
/// their own samples need into one of their own. All micro-batches of a rank borrow the one column.
///
/// Ranks call, in this order: meet(), prepare(), agree(), then once bytes have come run() and hand_out().
/// Ranks without a place in the grid only prepare().
class ValueExchange {
 public:
  /// Refers to both. Takes no memory.
  ValueExchange(const Mesh& mesh, const StepTransfer& step) noexcept : mesh_(mesh), step_(step) {}

  /// Collective over mesh.node(): finds out how values get from holders to others. Throws as
  /// moves_without_messages() does.
  void meet(const TransportSettings& options);
  /// Local: appends to what this rank sends to each rank and gets from it.
  void prepare(std::vector<BlockList>& sends, std::vector<BlockList>& receives);
  /// Collective over mesh.node(), whether or not `work` has failed: all ranks throw the same error.
  void agree(const TransportSettings& options, const GuardedWork& work);
  /// Collective over mesh.node(), once holders have what owners sent. Throws only when MPI fails: what goes
  /// wrong on this rank goes to `work`.
  void run(GuardedWork& work);
  /// Local: adds the fields' columns to micro-batches, which are those of the step.
  void hand_out(std::vector<PackedMicroBatch>& micro_batches);

  /// Adds this rank's bytes of each field. After prepare().
  void add_to(std::vector<FieldVolume>& volumes) const;
  /// Bytes that this rank copies from holders. After prepare().
  [[nodiscard]] std::int64_t copied() const;

 private:
  /// One field, and what this rank has of it.
  struct Field {
    FieldSpec spec;
    const RowCounts* counts = nullptr;
    std::vector<int> holders;  // by rank of the grid: of its node; -1 for who is not handed the field
    int holder = -1;           // of this rank's node; -1 where nobody there is handed the field
    bool wanted = false;       // whether this rank is handed it
    ValuePool pool;            // what this rank's column has
  };

  void add_field(std::size_t f);
  void send(const Field& field, const Column* source, std::vector<BlockList>& sends) const;
  void lay_out(Field& field);
  void receive(const Field& field, std::vector<BlockList>& receives) const;
  void prepare_copies(const Field& field);
  void borrow(const Field& field, GuardedWork& work);
  /// The entries of all samples that any of these ranks has, each once.
  [[nodiscard]] std::vector<EntryId> entries_at(std::span<const int> ranks) const;
  [[nodiscard]] std::vector<int> ranks_of(const Field& field, int holder) const;
  /// The number in mesh.node() of a rank of this node.
  [[nodiscard]] int in_node(int rank) const;
  [[nodiscard]] Column* column_of(const Field& field) { return pools_.front().find(field.spec.name); }
  [[nodiscard]] const Column* column_of(const Field& field) const {
    return pools_.front().find(field.spec.name);
  }

  const Mesh& mesh_;
  const StepTransfer& step_;
  NodeMemory* memory_ = nullptr;  // in which the node's ranks read what holders have
  std::optional<GroupsOfPlaces> groups_;
  std::vector<Field> fields_;
  std::vector<PackedMicroBatch> pools_;  // one, which has this rank's columns
  std::vector<BlockList> to_others_;     // by rank of mesh.node(): what is copied there
  std::vector<BlockList> from_holders_;
  std::optional<PreparedExchange> copies_;
};

}  // namespace evenkeel
