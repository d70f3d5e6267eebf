#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// What an owner tells the others of one sample.
struct SampleSummary {
  SampleShape shape;
  std::int64_t loss_tokens = -1;  ///< see LengthEntry
  std::uint64_t prompt_hash = 0;  ///< see LengthEntry
};

/// The samples of a batch as their owner tells them; loss tokens are counted where the batch brings a loss
/// mask of one value a token or a response token (see count_set): a response token that starts its sample is
/// predicted nowhere, and is none.
[[nodiscard]] std::vector<SampleSummary> summaries_of(const RaggedBatch& batch);
/// The same for samples that share prefixes: prompts are hashed, and only response tokens can carry loss.
[[nodiscard]] std::vector<SampleSummary> summaries_for_sharing(const RaggedBatch& batch);

}  // namespace evenkeel
