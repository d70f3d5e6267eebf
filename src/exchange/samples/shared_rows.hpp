#pragma once

#include <span>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// Whether fields have one row a token that samples with shared prefixes share, or tell what they share
/// (segment_ids_field), so that tokens must be compared. Local.
[[nodiscard]] bool have_shared_rows(std::span<const FieldSpec> fields) noexcept;
[[nodiscard]] bool have_shared_rows(std::span<const CarriedField> fields) noexcept;

/// Collective over `comm`: throws InputError on every rank when samples that share a segment bring different
/// rows there in a field of one row a token, of which all are handed one. (What rows say of the token after
/// them moves sample by sample. The samples' tokens are equal where trees were found by them, and are
/// compared where samples tell their trees.) Equal means equal hashes of 64 bits, 8 bytes a field and shared
/// segment of each sample in one gather. LimitError when a rank runs out of memory.
void require_equal_shared_rows(const Communicator& comm, const LengthTable& table,
                               const StepAssignment& assignment, std::span<const CarriedField> fields,
                               const RaggedBatch& mine);

}  // namespace evenkeel
