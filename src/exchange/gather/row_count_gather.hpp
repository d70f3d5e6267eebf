#pragma once

#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/length_table.hpp"

namespace evenkeel {

/// Collective over `comm`, whose ranks own the samples of `table`: how many rows every sample has in the
/// counted ones of `fields`, which are agreed on, in their order, and which samples of an owner have equal
/// values where `settings` have those lie once (see first_equal_samples). `mine` has this rank's samples as
/// the table has them, with these fields unless there are none of this rank's. Replicated. Nothing is sent
/// where no field is counted; else a word a sample and field, and another where equal values lie once, in an
/// all-gather after an agreement on the memory for them. Throws LimitError on every rank when a rank has too
/// little memory, or there are more words than an int counts.
[[nodiscard]] std::vector<RowCounts> gather_row_counts(const Communicator& comm, const LengthTable& table,
                                                       std::span<const FieldSpec> fields,
                                                       const RaggedBatch& mine,
                                                       const NamedFields& settings = {});

}  // namespace evenkeel
