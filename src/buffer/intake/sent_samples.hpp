#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// The samples that JobClient::lines() gave, with the fields of the stream: ids are their arrival numbers,
/// groups are those of their uids. Throws InputError where a line is not what was checked when it came.
[[nodiscard]] RaggedBatch sent_samples(std::string_view lines, std::span<const std::int64_t> arrivals,
                                       const JsonlSchema& schema);

}  // namespace evenkeel
