#pragma once

#include <algorithm>
#include <cstdint>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Tokens of a sample that carry loss: its response tokens, but for one that starts the sequence, which
/// nothing predicts. The sum of the sample's loss mask.
[[nodiscard]] constexpr std::int64_t loss_tokens(const SampleShape& sample) noexcept {
  return sample.length() - std::max<std::int64_t>(sample.prompt, sample.length() > 0 ? 1 : 0);
}

}  // namespace evenkeel
