#pragma once

#include <array>
#include <string_view>

#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {

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
