#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "plan/transfer/row_cuts.hpp"

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

/// Collective over `comm`, of all owners: for each of step.fields that cuts others, or itself, how many rows
/// of every sample each member of its group is handed. Replicated. A word a field, sample and member, in one
/// all-gather. Throws InputError on every rank where token ranges are not what TokensOfRows needs, or a field
/// that they cut has another number of rows; LimitError as all_gather_lists does.
[[nodiscard]] std::vector<RowCuts> gather_row_cuts(const Communicator& comm, const StepTransfer& step);

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
