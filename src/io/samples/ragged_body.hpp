#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Returns samples `first` to `last` - 1 of a batch as the bytes of a safetensors file of ragged tensors
/// (docs/formats.md). A buffer accepts these bytes as the body of a request. `uids` has one string for each
/// of these samples. Tokens are stored as int32 if all of them fit, otherwise as int64. Throws InputError for
/// a field with a reserved name. Precondition: first < last.
[[nodiscard]] std::string ragged_body(const RaggedBatch& batch, std::int64_t first, std::int64_t last,
                                      std::span<const std::string> uids);

/// Returns the number of bytes that sample `index` has in all fields of the batch.
[[nodiscard]] std::int64_t bytes_of_sample(const RaggedBatch& batch, std::int64_t index);

}  // namespace evenkeel
