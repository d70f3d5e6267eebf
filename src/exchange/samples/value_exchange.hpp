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

/// One rank's part of the transfer of fields whose equal values are stored once per node. On each node, the
/// lowest rank that gets such a field is the **holder** of the field.
///
/// 1. Owners send the holder every distinct value that ranks of the node need, along with all other data. The
///    values are concatenated in one column (a ValuePool).
/// 2. The other ranks of the node read that column or, if they cannot read each other's memory, copy the
///    values of their own samples into their own column.
/// 3. All micro-batches of a rank borrow this column.
///
/// Call the functions in this order: choose_path(), prepare() and agree() before the transfer; run() and
/// add_columns_to() after it.
class ValueExchange {
 public:
  /// Keeps references to both arguments.
  ValueExchange(const Mesh& mesh, const StepTransfer& step) noexcept : mesh_(mesh), step_(step) {}

  /// Collective over mesh.node(): determines whether the node's ranks read the memory of holders or copy from
  /// them. Throws the same error on all ranks of the node if `options` requires a transport that is not
  /// available (see prepare_exchange()).
  void choose_path(const TransportSettings& options);
  /// Local: appends the bytes of values to `sends` and `receives`, which list the bytes that this rank sends
  /// to and receives from each rank.
  void prepare(std::vector<BlockList>& sends, std::vector<BlockList>& receives);
  /// Collective over mesh.node(), even if `work` has failed. If ranks copy from holders, prepares the copies;
  /// if any rank of the node has an error, all of them throw the error of the lowest such rank. Has no effect
  /// if ranks do not copy.
  void agree(const TransportSettings& options, const GuardedWork& work);
  /// Collective over mesh.node(), after holders have received the values. Throws only if MPI fails; other
  /// errors of this rank go to `work`.
  void run(GuardedWork& work);
  /// Local: adds the fields' columns to the micro-batches of the step.
  void add_columns_to(std::vector<PackedMicroBatch>& micro_batches);

  /// Adds to `volumes` the bytes of each field that this rank receives or copies. Precondition: prepare() was
  /// called.
  void add_to(std::vector<FieldVolume>& volumes) const;
  /// Returns the bytes that this rank copies from holders. Precondition: prepare() was called.
  [[nodiscard]] std::int64_t copied_bytes() const;

 private:
  /// One of the exchanged fields, from this rank's point of view.
  struct Field {
    FieldSpec spec;
    const RowCounts* counts = nullptr;
    std::vector<int> holders;  // by world rank: holder on its node; -1 if the rank does not get the field
    int holder = -1;           // holder on this rank's node; -1 if no rank of the node gets the field
    bool wanted = false;       // whether this rank gets the field
    ValuePool pool;            // layout of the values in this rank's column
  };

  void add_field(std::size_t f);
  void add_sends(const Field& field, const Column* source, std::vector<BlockList>& sends) const;
  void lay_out(Field& field);
  void add_receives(const Field& field, std::vector<BlockList>& receives) const;
  void prepare_copies(const Field& field);
  void lend_or_borrow_column(const Field& field, GuardedWork& work);
  /// Returns the entries of all samples that at least one of these ranks gets, without duplicates.
  [[nodiscard]] std::vector<EntryId> entries_at(std::span<const int> ranks) const;
  [[nodiscard]] std::vector<int> ranks_of(const Field& field, int holder) const;
  /// Returns the rank in mesh.node() of a world rank on this node.
  [[nodiscard]] int rank_in_node(int rank) const;
  [[nodiscard]] Column* column_of(const Field& field) { return pools_.front().find(field.spec.name); }
  [[nodiscard]] const Column* column_of(const Field& field) const {
    return pools_.front().find(field.spec.name);
  }

  const Mesh& mesh_;
  const StepTransfer& step_;
  // Memory through which ranks read the values of holders; null if they copy the values.
  NodeMemory* memory_ = nullptr;
  std::optional<GroupsOfPlaces> groups_;
  std::vector<Field> fields_;
  std::vector<PackedMicroBatch> pools_;  // one element, which has this rank's columns of values
  std::vector<BlockList> to_others_;     // by rank of mesh.node(): bytes copied to that rank
  std::vector<BlockList> from_holders_;
  std::optional<PreparedExchange> copies_;
};

}  // namespace evenkeel
