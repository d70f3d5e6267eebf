#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "plan/transfer/stage_fields.hpp"

namespace evenkeel {

/// What a step checks of data that comes from outside, each on the rank that brings it. All throw InputError,
/// LimitError for a row that is too long.

/// require_valid_samples(), and makes a batch ready for a step: a response mask becomes the loss mask, values
/// of tokens move to the rows that predict them (apply_row_conventions), and labels of -100 carry no loss
/// (mask_ignored_labels). Throws for a loss mask of one value per token that is set at the end of a sample,
/// which has no label unless samples bring one label per token; with `shared` prefixes, where only response
/// tokens are predicted, for a mask that is set at any other row.
void prepare_samples(RaggedBatch& batch, const NamedFields& fields, bool shared);

/// Whether `added` are fields of the samples that `rank` brought to the step, `owned` of them, and such as
/// can be added to it: their values are at the rows that predict their tokens (require_rows_in_place).
void require_addable(const LengthTable& table, const NamedFields& fields, WorldRank rank, std::int64_t owned,
                     const RaggedBatch& added);

/// Whether a step's micro-batches, which a trainer may have changed, can be passed over again: those
/// `brought` by samples are there, every column has its rows, and all micro-batches have the same columns.
void require_whole(std::span<const PackedMicroBatch> micro_batches, std::span<const CarriedField> brought,
                   PipelineStage stage);

}  // namespace evenkeel
