#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// The field of samples that say which tree they make, with PrefixSharing::trees: the number of the segment
/// that each token is of. Samples with the same uid share tokens as far as they name the same segments, from
/// the first token on: what has other numbers stays apart, whatever its tokens.
inline constexpr std::string_view segment_ids_field = "segment_ids";

/// One number for each token of the batch, which are equal where samples of a uid name the same segment.
/// Where the field has a row a response token, those of a prompt are its tokens, so that prompts share the
/// beginning that they have in common. Pieces of samples (RaggedBatch::contexts) have equal numbers only if
/// they follow the same segments, since a segment number may be used again behind others. Throws InputError
/// for a field that is not one integer of 0 or more a token or a response token, and for one at all if rows
/// are shared by tokens `ahead` of them, since only those of shared rows are compared. O(tokens).
/// Precondition: the batch has the field, and input_ids.
[[nodiscard]] std::vector<std::int64_t> segment_keys(const RaggedBatch& batch, std::int64_t ahead);

}  // namespace evenkeel
