#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/loss.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Tokens of a sample that carry loss when no mask is supplied: its response tokens, but for one that starts
/// the sequence, which nothing predicts.
[[nodiscard]] constexpr std::int64_t response_loss_tokens(const SampleShape& sample) noexcept {
  return sample.length() - std::max<std::int64_t>(sample.prompt, sample.length() > 0 ? 1 : 0);
}
/// T_s of a sample in a step: what its owner counted in its mask, else as above.
[[nodiscard]] constexpr std::int64_t loss_tokens_of(const LengthEntry& entry) noexcept {
  return entry.loss_tokens < 0 ? response_loss_tokens(entry.shape) : entry.loss_tokens;
}

/// The same for the loss of the tokens that many after the labels, whose mask is derived.
[[nodiscard]] constexpr std::int64_t loss_tokens_ahead(const LengthEntry& entry,
                                                       std::int64_t ahead) noexcept {
  if (ahead == 0) return loss_tokens_of(entry);
  const SampleShape& sample = entry.shape;
  return std::max<std::int64_t>(sample.length() - std::max(sample.prompt, ahead + 1), 0);
}

/// The weights of a DP rank's micro-batches of one mini-batch, whose table entries over all DP ranks are
/// `mini_batch`. Pure and exact: T, B and P are integers over the whole mini-batch, each weight is one
/// division, and nothing is added to a denominator; a mini-batch without loss tokens weighs 0 everywhere.
///
/// Invariants: in every mean mode but mindspeed_rl and seq_mean_token_sum(_norm), omega sums to 1 over the
/// mini-batch's loss tokens (unless fully masked samples count); the loss is the same for every split, order,
/// number of empty micro-batches and CP size. Throws ConfigError when norm_length < 1.
/// With `ahead`, those of a loss of its own, of the tokens that many after the labels.
[[nodiscard]] std::vector<MicroBatchLoss> loss_weights(const LengthTable& table,
                                                       std::span<const EntryId> mini_batch,
                                                       std::span<const MicroBatchPlan> micro_batches,
                                                       const LossSettings& settings, int dp,
                                                       std::int64_t ahead = 0);

/// The same for all of a DP rank's micro-batches, mini-batch after mini-batch.
[[nodiscard]] std::vector<MicroBatchLoss> loss_weights(const LengthTable& table,
                                                       const StepAssignment& assignment,
                                                       std::span<const MicroBatchPlan> micro_batches,
                                                       const LossSettings& settings, int dp,
                                                       std::int64_t ahead = 0);

}  // namespace evenkeel
