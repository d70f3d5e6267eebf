#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "plan/transfer/field_transfers.hpp"

namespace evenkeel {

// The functions below check external data on the rank that supplies the data. They throw InputError, or
// LimitError if a row is too long.

/// Returns the field settings that describe `batch` as it was read: the settings for dumps (fields_of_dumps)
/// if all of the job's sources are dumps, otherwise the configured settings.
[[nodiscard]] NamedFields fields_as_read(const Config& config, const RaggedBatch& batch);

/// Prepares a batch for a step: calls require_valid_samples(), then place_values().
void prepare_samples(RaggedBatch& batch, const NamedFields& fields, bool shared);

/// Throws InputError unless the fields of `added` can be added to the step. `added` must have the `owned`
/// samples that `rank` owns, in their original order. The plan must not depend on the fields, and their
/// values must be at the rows that predict their tokens (require_rows_in_place).
void require_addable(const LengthTable& table, const NamedFields& fields, WorldRank rank, std::int64_t owned,
                     const RaggedBatch& added);

/// Throws InputError unless a step's micro-batches, which a trainer may have changed, can be used for another
/// pass: they have the fields `brought` by samples, every column has the right number of rows, and all
/// micro-batches have the same columns.
void require_whole(std::span<const PackedMicroBatch> micro_batches, std::span<const CarriedField> brought,
                   PipelineStage stage);

/// Applies two rules of `filter` to the samples that a rank adds to a step: batch.max_length if
/// batch.too_long is error, and batch.without_loss. (The other rules apply only to samples from sources.)
/// Returns the number of dropped samples. Throws InputError naming the first sample that violates a rule. If
/// `shared`, samples share prefixes, and only response tokens carry loss. Precondition: prepare_samples() was
/// called with the same `shared`.
[[nodiscard]] std::int64_t apply_filter(const FilterSettings& filter, bool shared, RaggedBatch& batch);

}  // namespace evenkeel
