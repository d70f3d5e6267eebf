#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Distribution of lengths in tokens: median * exp(sigma * z) with z standard normal, rounded, clipped to
/// [min, max].
struct LengthDistribution {
  double median = 1.0;
  double sigma = 0.0;  ///< with 0, all lengths equal the median; 1 gives a long tail
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// Synthetic GRPO samples with a long tail of lengths: `prompts` prompts with `group_size` responses each.
/// Sample i responds to prompt i / group_size.
struct SyntheticSpec {
  std::uint64_t seed = 1;
  std::int64_t prompts = 1024;
  std::int64_t group_size = 8;
  std::int64_t vocab_size = 32000;
  LengthDistribution prompt_length{256.0, 0.6, 16, 4096};
  LengthDistribution response_length{1024.0, 1.0, 1, 16384};

  [[nodiscard]] constexpr std::int64_t samples() const noexcept { return prompts * group_size; }
};

/// Throws ConfigError naming the first member out of range: 0 <= prompts <= 2^40, 1 <= group_size <= 2^20,
/// vocab_size >= 1, a finite median > 0, 0 <= sigma <= 10, 0 <= min <= max <= 2^40.
void validate(const SyntheticSpec& spec);

/// Returns the shape of sample `id`; its group is the number of its prompt. A pure function of (spec, id): it
/// uses SplitMix64 on counters, and arithmetic that IEEE 754 determines to the last bit, so results do not
/// depend on the number of ranks, the compiler or the platform. O(1). Throws ConfigError if `spec` is invalid
/// (see validate()), and InputError if `id` is not in [0, samples()).
[[nodiscard]] SampleShape synthetic_shape(const SyntheticSpec& spec, SampleId id);

/// Returns these samples, in this order, with `input_ids`, `reward` (float32, sample: 0 or 1) and
/// `advantages` (float32, response_token: the reward normalized over the group, plus a little noise per
/// token, which makes misplaced tokens detectable). Samples of a group share the prompt's tokens. A pure
/// function. Throws ConfigError and InputError in the same cases as synthetic_shape().
/// O(tokens + b * group_size) for b samples.
[[nodiscard]] RaggedBatch synthetic_samples(const SyntheticSpec& spec, std::span<const SampleId> ids);

}  // namespace evenkeel
