#pragma once

#include <span>
#include <vector>

#include "exchange/samples/sample_exchange.hpp"
#include "pack/micro_batch/derived_columns.hpp"
#include "plan/transfer/field_transfers.hpp"

namespace evenkeel {

/// The fields that a place of the mesh is sent.
[[nodiscard]] std::vector<FieldTransfer> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                                        const GridPoint& sizes);

/// What comes to a rank's tensors.
struct OwnTensors {
  std::span<const FieldTransfer> fields;    ///< of which it has columns of its own
  std::span<const FieldTransfer> of_place;  ///< all that its place is sent: lent by other ranks, too
  std::span<const FieldSpec> brought;       ///< by samples, wherever they are sent
  bool derives = true;                      ///< whether it derives fields itself; else they are lent
};

/// Gives a micro-batch that is laid out one arena for all that it will have of its own, and adds the columns
/// of fields that samples bring. Returns what is to be derived once these are there. Local.
[[nodiscard]] DerivedColumns add_tensors(const StepTransfer& step, const OwnTensors& own,
                                         const MicroBatchPlan& plan, const DerivedFieldSettings& derived,
                                         PackedMicroBatch& m);

}  // namespace evenkeel
