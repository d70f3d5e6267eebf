#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

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

/// What a micro-batch has beside its fields, by its name in a dump.
inline constexpr std::string_view cu_seqlens_name = "cu_seqlens";
inline constexpr std::string_view cu_seqlens_padded_name = "cu_seqlens_padded";
inline constexpr std::string_view sample_index_name = "sample_index";
inline constexpr std::string_view prediction_offsets_name = "prediction_offsets";
inline constexpr std::string_view segment_sample_name = "segment_sample";
inline constexpr std::string_view segment_group_name = "segment_group";
inline constexpr std::string_view segment_parent_name = "segment_parent";

/// Names of what is always derived, which no field that samples bring may have. (Of __metadata__ safetensors
/// make a name of their own.)
inline constexpr std::array derived_names{cu_seqlens_name,       cu_seqlens_padded_name,
                                          loss_weights_field,    prediction_offsets_name,
                                          prediction_rows_field, sample_index_name,
                                          segment_group_name,    segment_parent_name,
                                          segment_sample_name,   std::string_view("__metadata__")};

}  // namespace evenkeel
