#pragma once

#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "plan/schedule/sample_summary.hpp"

namespace evenkeel {

/// What all ranks know of a step's samples before any token moves. Replicated.
struct GatheredLengths {
  LengthTable table;
  std::vector<FieldSpec> fields;  ///< see agree_on_fields
};

/// Collective over `comm`: every rank's sample lengths become the length table on every rank, and `fields` of
/// the ranks that have samples those of all. A status word travels with the counts: when any rank brings an
/// error instead of samples, all ranks throw that error (the lowest such rank's), and none waits for another.
/// Throws on every rank as agree_on_fields does, also where ranks have different calls in mind, and
/// LimitError when a rank has too little memory. Two collectives while all have samples with equal fields: 56
/// bytes a rank, then 56 bytes a sample; no tokens move. One more when the ranks bring very different numbers
/// of samples, more than half of a step on few.
[[nodiscard]] GatheredLengths gather_lengths(const Communicator& comm, std::span<const SampleSummary> mine,
                                             std::optional<std::vector<FieldSpec>> fields,
                                             const std::optional<ErrorReport>& my_error,
                                             const CallKey& call = {});

}  // namespace evenkeel
