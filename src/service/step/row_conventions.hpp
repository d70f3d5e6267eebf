#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// Row conventions (FieldSettings::at): samples may have the value of a token at the token itself; a step has
/// it at the row that predicts the token. All functions are local.

/// The name of the loss mask in verl and ROLL.
inline constexpr std::string_view response_mask_field = "response_mask";

/// Gives a field `response_mask` with one value per token or per response token the name `loss_mask`. Throws
/// InputError if both are there.
void name_loss_mask(RaggedBatch& batch);

/// The settings of fields as the job's source has the samples of `batch`: a dump has all values where steps
/// have them.
[[nodiscard]] NamedFields fields_as_read(const Config& config, const RaggedBatch& batch);

/// Moves the rows of fields with RowConvention::token to the rows that predict their tokens. The value of a
/// sample's first token is left out, since nothing predicts it; the last row becomes zeros, or ignored_label.
/// With `shared` prefixes, fields other than labels and masks get one row per response token, since a shared
/// row predicts a different token for each sample. Throws InputError that names the field: a kind that does
/// not fit the convention, and labels or a loss mask of one value per token without a convention. O(bytes of
/// the fields that are moved).
void apply_row_conventions(RaggedBatch& batch, const NamedFields& fields, bool shared);

/// Throws InputError that names a field of `batch` that apply_row_conventions() would refuse or move.
void require_rows_in_place(const RaggedBatch& batch, const NamedFields& fields);

/// Clears the loss mask at labels of ignored_label. Samples with labels and without a mask get a mask of the
/// labels' kind, float32: 1 at labels of response tokens. O(labels).
void mask_ignored_labels(RaggedBatch& batch);

}  // namespace evenkeel
