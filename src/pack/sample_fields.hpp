#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {

/// Label of a token without loss.
inline constexpr std::int64_t ignored_label = -100;

/// Describes a field, such as "an int64 token field with rows of shape [2]".
[[nodiscard]] std::string description_of(const FieldSpec& spec);

/// Throws InputError if the name of the field is one of derived_names.
void require_usable_name(const FieldSpec& spec);
/// Throws InputError if the field is input_ids, labels, loss_mask or position_ids, from which other fields
/// are derived, and does not have the required form.
void require_usable_form(const FieldSpec& spec);

/// Throws InputError if two fields have the same name, or if a field has the name of another field's offsets.
void require_different_names(std::span<const FieldSpec> fields);

/// Throws InputError at the first sample whose loss mask, with one value per token, is set at a row whose
/// label is a prompt token. With shared prefixes, only response tokens carry loss.
void require_loss_only_on_responses(const RaggedBatch& batch, const Column& mask);

/// Names, in a dump, of a micro-batch's tensors that are not fields.
inline constexpr std::string_view cu_seqlens_name = "cu_seqlens";
inline constexpr std::string_view cu_seqlens_padded_name = "cu_seqlens_padded";
inline constexpr std::string_view sample_index_name = "sample_index";
inline constexpr std::string_view prediction_offsets_name = "prediction_offsets";
inline constexpr std::string_view segment_sample_name = "segment_sample";
inline constexpr std::string_view segment_group_name = "segment_group";
inline constexpr std::string_view segment_parent_name = "segment_parent";

/// Names of tensors that are always derived; fields of samples must not have these names. The safetensors
/// format reserves __metadata__.
inline constexpr std::array derived_names{cu_seqlens_name,       cu_seqlens_padded_name,
                                          loss_weights_field,    prediction_offsets_name,
                                          prediction_rows_field, sample_index_name,
                                          segment_group_name,    segment_parent_name,
                                          segment_sample_name,   std::string_view("__metadata__")};

}  // namespace evenkeel
