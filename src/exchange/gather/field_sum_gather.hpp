#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"

namespace evenkeel {

/// Collective over `comm`, whose ranks own the samples of `table`: what every sample's elements add up to in
/// those of `fields`, which are agreed on, that have one of these names. `mine` has this rank's samples, with
/// these fields unless there are none of this rank's. Replicated. Nothing is sent if no field has such a
/// name; else a word a sample and field, in an all-gather after an agreement. Throws on every rank what
/// sums_of_samples throws on one, and as gather_row_counts does.
[[nodiscard]] std::vector<FieldSums> gather_field_sums(const Communicator& comm, const LengthTable& table,
                                                       std::span<const FieldSpec> fields,
                                                       const std::set<std::string>& names,
                                                       const RaggedBatch& mine);

}  // namespace evenkeel
