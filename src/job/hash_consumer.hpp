#pragma once

#include <cstdint>
#include <filesystem>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel {

/// A number that depends on a token, on whose it is and on where it stands: what the demonstration consumer
/// computes in place of a model, so that a token which was lost, swapped or misplaced on its way shows in the
/// results. The 64-bit finalizer of SplitMix64 (Steele, Lea and Flood, 2014) over the three, chained. Never
/// negative.
[[nodiscard]] std::int64_t token_hash(std::int64_t token, SampleId sample, std::int64_t position) noexcept;

/// The demonstration consumer: `token_hash` (int64, one a token; not where prefixes are shared),
/// `response_hash` (int64, one a response token, from its label) and `sample_hash` (int64, one a sample: the
/// hash of its length) for every micro-batch of a step. Local. Nothing on ranks that were handed no tokens.
[[nodiscard]] StepResults hash_tokens(const Step& step);

/// Writes results that were gathered, in their order, as DIR/step-000000.safetensors: `sample_index` [n] (the
/// sample's line in the source), `offsets` [n + 1] (int64 prefix sums of lengths) and one tensor a field.
/// Throws IoError.
void write_results(const std::filesystem::path& dir, std::int64_t step, const RaggedBatch& results);

}  // namespace evenkeel
