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

/// Collective over `comm`, whose ranks own the samples of `table`: returns the number of rows of every sample
/// in each counted field, in the order of `fields`. The ranks must have agreed on `fields`. If `settings`
/// store equal values of a field once, also returns which samples of an owner have equal values (see
/// first_equal_samples()). `mine` has this rank's samples in its own order (LengthEntry::owner_index), with
/// these fields unless it is empty. The result is replicated.
///
/// Communicates only if a field is counted. After one agreement on errors, makes one all-gather with one word
/// per sample and counted field, or two words if equal values of the field are stored once. Throws LimitError
/// on every rank if a rank runs out of memory or the number of words does not fit in an int.
[[nodiscard]] std::vector<RowCounts> gather_row_counts(const Communicator& comm, const LengthTable& table,
                                                       std::span<const FieldSpec> fields,
                                                       const RaggedBatch& mine,
                                                       const NamedFields& settings = {});

/// Collective over `comm`, which contains all owners: for each field in step.fields whose token ranges cut
/// other fields (CarriedField::cut_by), returns how many rows of every sample each member of the sample's
/// group gets. The result is replicated. Makes three collective calls, including an all-gather of one word
/// per field, sample and member. Throws InputError on every rank if token ranges are invalid (see
/// TokensOfRows) or if a field that they cut has a different number of rows, and LimitError if a rank runs
/// out of memory or the number of words does not fit in an int.
[[nodiscard]] std::vector<RowCuts> gather_row_cuts(const Communicator& comm, const StepTransfer& step);

/// Collective over `comm`, whose ranks own the samples of `table`: returns the sum of every sample's elements
/// in each field of `fields` whose name is in `names`. The ranks must have agreed on `fields`. `mine` has
/// this rank's samples, with these fields unless it is empty. The result is replicated. Communicates only if
/// any of the fields is named: after one agreement on errors, makes one all-gather with one word per sample
/// and named field. If sum_by_sample() throws on any rank, every rank throws the error. Throws LimitError on
/// every rank if a rank runs out of memory or the number of words does not fit in an int.
[[nodiscard]] std::vector<FieldSums> gather_field_sums(const Communicator& comm, const LengthTable& table,
                                                       std::span<const FieldSpec> fields,
                                                       const std::set<std::string>& names,
                                                       const RaggedBatch& mine);

}  // namespace evenkeel
