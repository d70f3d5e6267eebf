#pragma once

#include <span>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// Returns whether require_equal_shared_rows() must be called if prefixes are shared: whether samples share
/// the rows of any field with one row per token, or declare their trees (segment_ids_field). Local.
[[nodiscard]] bool must_compare_rows(std::span<const FieldSpec> fields) noexcept;
[[nodiscard]] bool must_compare_rows(std::span<const CarriedField> fields) noexcept;

/// Collective over `comm`: throws InputError on every rank if samples that share a segment have different
/// rows there in a field with one row per token, since all of these samples will get the same row. Also
/// compares tokens if samples declare their trees; otherwise, the trees were built from equal tokens. Rows
/// that describe the next token are transferred per sample and are not compared.
///
/// Compares hashes of 64 bits: one gather of 8 bytes per field and shared segment of each sample. Throws
/// LimitError if a rank runs out of memory.
void require_equal_shared_rows(const Communicator& comm, const LengthTable& table,
                               const StepAssignment& assignment, std::span<const CarriedField> fields,
                               const RaggedBatch& mine);

}  // namespace evenkeel
