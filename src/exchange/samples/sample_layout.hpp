#pragma once

#include <vector>

#include "exchange/samples/sample_exchange.hpp"
#include "plan/transfer/field_transfers.hpp"

namespace evenkeel {

/// The fields that a place of the mesh is sent.
[[nodiscard]] std::vector<FieldTransfer> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                                        const GridPoint& sizes);

/// The column of a field that samples bring: see lay_out_micro_batch. Local.
[[nodiscard]] Column column_for(const StepTransfer& step, const FieldTransfer& field,
                                const PackedMicroBatch& m, const MicroBatchPlan& plan,
                                const DerivedFieldSettings& derived);

/// A micro-batch as this rank's place in the mesh holds it, without the columns of these fields (see
/// lay_out_micro_batch). Local.
[[nodiscard]] PackedMicroBatch lay_out_rows(const Mesh& mesh, const StepTransfer& step,
                                            const MicroBatchPlan& plan);

}  // namespace evenkeel
