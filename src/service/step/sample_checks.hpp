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

/// What a step checks of data that comes from outside, each on the rank that brings it. All throw InputError,
/// LimitError for a row that is too long.

/// Returns the settings of fields as the job's sources have the samples of `batch`: those of dumps, or the
/// configuration's.
[[nodiscard]] NamedFields fields_as_read(const Config& config, const RaggedBatch& batch);

/// require_valid_samples(), and then place_values(), which makes a batch ready for a step.
void prepare_samples(RaggedBatch& batch, const NamedFields& fields, bool shared);

/// Whether `added` are fields of the samples that `rank` brought to the step, `owned` of them, and such as
/// can be added to it: their values are at the rows that predict their tokens (require_rows_in_place).
void require_addable(const LengthTable& table, const NamedFields& fields, WorldRank rank, std::int64_t owned,
                     const RaggedBatch& added);

/// Whether a step's micro-batches, which a trainer may have changed, can be passed over again: those
/// `brought` by samples are there, every column has its rows, and all micro-batches have the same columns.
void require_whole(std::span<const PackedMicroBatch> micro_batches, std::span<const CarriedField> brought,
                   PipelineStage stage);

/// Applies the rules of `filter` that hold for all samples, wherever they come from, to those that a rank
/// brings to a step: batch.too_long: error with a max_length, and batch.without_loss. Returns the number of
/// samples that it left out. Throws InputError that names the first sample that is to be an error.
/// `shared`: only response tokens are predicted. Precondition: prepare_samples(batch, shared).
[[nodiscard]] std::int64_t apply_filter(const FilterSettings& filter, bool shared, RaggedBatch& batch);

}  // namespace evenkeel
