#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Returns samples `first` to `last` - 1 of a batch as the bytes of a safetensors file of ragged tensors
/// (docs/formats.md), which is also the body of a request to a buffer. `uids` are texts, one per sample.
/// Tokens take four bytes each if they fit. Throws InputError for a field with a reserved name.
[[nodiscard]] std::string ragged_body(const RaggedBatch& batch, std::int64_t first, std::int64_t last,
                                      std::span<const std::string> uids);

/// Returns the bytes of sample `index` in all fields of the batch.
[[nodiscard]] std::int64_t bytes_of_sample(const RaggedBatch& batch, std::int64_t index);

}  // namespace evenkeel
