#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// The label of a token that carries no loss.
inline constexpr std::int64_t ignored_label = -100;

/// "an int64 token field of rows of 2".
[[nodiscard]] std::string description_of(const FieldSpec& spec);

/// Throws InputError if the field has the name of one that is always derived.
void require_usable_name(const FieldSpec& spec);
/// Throws InputError if other fields are derived from the field and it does not have the form that this
/// needs: input_ids, labels, loss_mask and position_ids.
void require_usable_form(const FieldSpec& spec);

/// Throws InputError for two fields of one name, and for a field with the name of another's offsets.
void require_different_names(std::span<const FieldSpec> fields);

/// Throws InputError at the first sample whose loss mask, of one value per token, is set at a row whose label
/// is a token of its prompt: with shared prefixes only response tokens have loss.
void require_loss_of_responses(const RaggedBatch& batch, const Column& mask);

}  // namespace evenkeel
