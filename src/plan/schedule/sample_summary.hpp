#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// The properties of one sample that its owner sends to the other ranks.
struct SampleSummary {
  SampleShape shape;
  std::int64_t loss_tokens = -1;  ///< same as LengthEntry::loss_tokens
  std::uint64_t prompt_hash = 0;  ///< same as LengthEntry::prompt_hash
};

/// Returns the summaries of a batch's samples. Loss tokens are counted if the batch has a loss mask with one
/// value per token or per response token (see count_set); a response token that starts its sample is not
/// predicted, and does not count.
[[nodiscard]] std::vector<SampleSummary> summaries_of(const RaggedBatch& batch);
/// Returns the summaries of samples that share prefixes: prompts are hashed, and only response tokens count
/// as loss tokens.
[[nodiscard]] std::vector<SampleSummary> summaries_for_sharing(const RaggedBatch& batch);

}  // namespace evenkeel
