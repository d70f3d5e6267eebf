#pragma once

#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// Row conventions (FieldSettings::at). In samples, the value of a token may be at the token itself. In a
/// step, it is at the row that predicts the token. All functions are local.

/// The name of the loss mask in verl and ROLL.
inline constexpr std::string_view response_mask_field = "response_mask";

/// Returns "token", "next" or "response".
[[nodiscard]] std::string_view name_of(RowConvention at) noexcept;
/// Returns the convention with this name. Throws InputError for any other word.
[[nodiscard]] RowConvention row_convention_of(std::string_view word);

/// Returns the loss mask: `loss_mask`, or a `response_mask` with one value per token or per response token.
/// Returns null if the batch has neither. Throws InputError if it has both.
[[nodiscard]] Column* find_loss_mask(RaggedBatch& batch);

/// Returns the field settings for the samples of a dump, in which all values are already at the rows where
/// steps have them.
[[nodiscard]] NamedFields field_settings_for_dump(NamedFields fields, const RaggedBatch& batch);

/// Moves the rows of fields with RowConvention::token to the rows that predict their tokens. The value of a
/// sample's first token is dropped, since no row predicts it; the last row becomes zeros, or ignored_label
/// for labels. With `shared` prefixes, fields that have a convention, except labels and masks, get one row
/// per response token, since a shared row predicts a different token for each sample. Throws InputError
/// naming the field if its kind does not fit the convention, or if it is labels or a loss mask with one value
/// per token and has no convention. O(bytes of the moved fields).
void apply_row_conventions(RaggedBatch& batch, const NamedFields& fields, bool shared);

/// Throws InputError naming a field of `batch` if its kind does not fit its convention, if its convention is
/// missing (see apply_row_conventions), or if its convention is RowConvention::token.
void require_rows_in_place(const RaggedBatch& batch, const NamedFields& fields);

/// Moves values to the rows that predict their tokens (apply_row_conventions), renames the loss mask to
/// `loss_mask`, and clears it where the label is ignored_label. If samples have labels but no mask, adds a
/// float32 mask of the labels' kind that is 1 where the label is a response token. Throws InputError if a
/// mask with one value per token is set at the last row of a sample, unless samples have one label per token
/// and do not share prefixes. With `shared` prefixes, also throws if a mask is set where the label is a
/// prompt token.
void normalize_rows_and_masks(RaggedBatch& batch, const NamedFields& fields, bool shared);

}  // namespace evenkeel
