#pragma once

#include <cstdint>
#include <filesystem>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel {

/// Returns a hash of a token, its sample and its position: SplitMix64 (Steele, Lea and Flood, 2014) applied
/// to the three numbers in turn. Never negative. The demonstration consumer returns these hashes as its
/// results, so that lost, swapped or misplaced tokens are detected.
[[nodiscard]] std::int64_t token_hash(std::int64_t token, SampleId sample, std::int64_t position) noexcept;

/// Runs the demonstration consumer. For every micro-batch of a step, it computes `token_hash` (int64, one per
/// token; not with shared prefixes), `response_hash` (int64, one per response token, from its label) and
/// `sample_hash` (int64, one per sample: the hash of its length). Local. Ranks without tokens or labels do
/// not have results.
[[nodiscard]] StepResults hash_tokens(const Step& step);

/// Writes gathered results, in their order, as DIR/step-000000.safetensors: `sample_index` [n] (the sample's
/// number; for one file of JSON Lines, its 0-based line), `offsets` [n + 1] (int64 prefix sums of lengths)
/// and one tensor per field. Throws IoError.
void write_results(const std::filesystem::path& dir, std::int64_t step, const RaggedBatch& results);

}  // namespace evenkeel
