#pragma once

#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "plan/transfer/row_cuts.hpp"

namespace evenkeel {

/// Collective over `comm`, of all owners: for each of step.fields that cuts others, or itself, how many rows
/// of every sample each member of its group is handed. Replicated. A word a field, sample and member, in one
/// all-gather. Throws InputError on every rank where token ranges are not what TokensOfRows needs, or a field
/// that they cut has another number of rows; LimitError as all_gather_lists does.
[[nodiscard]] std::vector<RowCuts> gather_row_cuts(const Communicator& comm, const StepTransfer& step);

}  // namespace evenkeel
