#pragma once

#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "exchange/gather/announcement.hpp"
#include "plan/schedule/sample_summary.hpp"

namespace evenkeel {

/// Description of a step's samples before any token is transferred. Replicated.
struct GatheredLengths {
  LengthTable table;
  std::vector<FieldSpec> fields;  ///< fields on which all ranks have agreed (agree_on_fields)
};

/// Collective over `comm`: gathers the sample lengths of all ranks in a length table on every rank, and
/// agrees on `fields` (nullopt on ranks without samples). Begins with announce(): if any rank passes an
/// error, all ranks throw the error of the lowest such rank, so no rank waits for samples that will not
/// arrive.
///
/// Throws InputError on every rank if ranks have different fields or make different calls (see
/// agree_on_fields()), and LimitError if the number of samples does not fit in an int. Costs two collective
/// calls if all ranks have samples with equal fields: 48 bytes per rank, then 56 bytes per sample; tokens are
/// not transferred.
[[nodiscard]] GatheredLengths gather_lengths(const Communicator& comm, std::span<const SampleSummary> mine,
                                             std::optional<std::vector<FieldSpec>> fields,
                                             const std::optional<ErrorReport>& my_error,
                                             const CallKey& call = {});

}  // namespace evenkeel
