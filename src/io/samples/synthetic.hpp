#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Lengths in tokens: median * exp(sigma * z) with z standard normal, rounded, cut to [min, max].
struct LengthDistribution {
  double median = 1.0;
  double sigma = 0.0;  ///< 0 gives every sample the median; 1 is a long tail
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// A long-tailed GRPO step that needs no files: `prompts` prompts with `group_size` responses each. Sample i
/// answers prompt i / group_size.
struct SyntheticSpec {
  std::uint64_t seed = 1;
  std::int64_t prompts = 1024;
  std::int64_t group_size = 8;
  std::int64_t vocab_size = 32000;
  LengthDistribution prompt_length{256.0, 0.6, 16, 4096};
  LengthDistribution response_length{1024.0, 1.0, 1, 16384};

  [[nodiscard]] constexpr std::int64_t samples() const noexcept { return prompts * group_size; }
};

/// Throws ConfigError that names the member that is out of its range: 0 <= prompts <= 2^40,
/// 1 <= group_size <= 2^20, vocab_size >= 1, a finite median > 0, 0 <= sigma <= 10, 0 <= min <= max <= 2^40.
void validate(const SyntheticSpec& spec);

/// Sample `id`'s lengths; its group is the prompt's number. A pure function of (spec, id): counters through
/// SplitMix64, and arithmetic that IEEE 754 fixes to the last bit, so every rank count, compiler and platform
/// gives the same. O(1). Throws as validate(), and InputError when `id` is not in [0, samples()).
[[nodiscard]] SampleShape synthetic_shape(const SyntheticSpec& spec, SampleId id);

/// These samples, in this order, with `input_ids`, `reward` (float32, sample: 0 or 1) and `advantages`
/// (float32, response_token: the group's normalized reward plus a little noise a token, so that a token out
/// of place shows). Samples of a group share the prompt's tokens. As pure as synthetic_shape(), and throws as
/// it does. O(tokens + b * group_size).
[[nodiscard]] RaggedBatch synthetic_samples(const SyntheticSpec& spec, std::span<const SampleId> ids);

}  // namespace evenkeel
