#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// Row conventions (FieldSettings::at): samples may have the value of a token at the token itself; a step has
/// it at the row that predicts the token. All functions are local.

/// The name of the loss mask in verl and ROLL.
inline constexpr std::string_view response_mask_field = "response_mask";

/// "token", "next" or "response".
[[nodiscard]] std::string_view name_of(RowConvention at) noexcept;
/// The inverse. Throws InputError for another word.
[[nodiscard]] RowConvention row_convention_of(std::string_view word);

/// Returns the field that says which tokens carry loss, `loss_mask` or else a `response_mask` with one value
/// per token or per response token; or null if there is none. Throws InputError if both are there.
[[nodiscard]] Column* find_loss_mask(RaggedBatch& batch);

/// Returns the settings of fields for the samples of a dump, which has all values where steps have them.
[[nodiscard]] NamedFields fields_of_dumps(NamedFields fields, const RaggedBatch& batch);

/// Moves the rows of fields with RowConvention::token to the rows that predict their tokens. The value of a
/// sample's first token is left out, since nothing predicts it; the last row becomes zeros, or ignored_label.
/// With `shared` prefixes, fields other than labels and masks get one row per response token, since a shared
/// row predicts a different token for each sample. Throws InputError that names the field: a kind that does
/// not fit the convention, and labels or a loss mask of one value per token without a convention. O(bytes of
/// the fields that are moved).
void apply_row_conventions(RaggedBatch& batch, const NamedFields& fields, bool shared);

/// Throws InputError that names a field of `batch` that apply_row_conventions() would refuse or move.
void require_rows_in_place(const RaggedBatch& batch, const NamedFields& fields);

/// Moves values to the rows that predict their tokens (apply_row_conventions), gives the loss mask the name
/// `loss_mask`, and clears it at labels of ignored_label. Samples with labels and without a mask get a mask
/// of the labels' kind, float32: 1 at labels of response tokens. Throws InputError for a mask of one value
/// per token that is set at the last row of a sample, which has no label unless samples bring one label per
/// token; and with `shared` prefixes for a mask that is set on a label that is a prompt token.
void place_values(RaggedBatch& batch, const NamedFields& fields, bool shared);

}  // namespace evenkeel
