#pragma once

#include <span>
#include <vector>

#include "exchange/samples/sample_exchange.hpp"
#include "pack/micro_batch/derived_columns.hpp"
#include "plan/transfer/field_transfers.hpp"

namespace evenkeel {

/// Returns the transfers of the fields that a place of the mesh gets, in transfer order.
[[nodiscard]] std::vector<FieldTransfer> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                                        const GridPoint& sizes);

/// The fields for which one rank's micro-batches have columns.
struct OwnTensors {
  std::span<const FieldTransfer> fields;  ///< fields for which the rank has its own columns
  /// All fields that the rank's place gets from owners, including fields whose columns peers lend to the
  /// rank.
  std::span<const FieldTransfer> place_fields;
  std::span<const FieldSpec> brought;  ///< all fields that samples supply, for any place
  bool derives = true;                 ///< whether the rank derives fields itself; if not, a peer lends them
};

/// Allocates one arena for all columns that a micro-batch will own, and adds the columns of `own.fields`. The
/// micro-batch must be laid out. Returns the columns to derive after the exchange has filled `own.fields`.
/// Local.
[[nodiscard]] DerivedColumns add_tensors(const StepTransfer& step, const OwnTensors& own,
                                         const MicroBatchPlan& plan, const DerivedFieldSettings& derived,
                                         PackedMicroBatch& m);

}  // namespace evenkeel
