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

/// Returns the number of loss tokens of a sample without a mask: its response tokens. A response token at the
/// start of the sequence does not count, since no row predicts it.
[[nodiscard]] constexpr std::int64_t response_loss_tokens(const SampleShape& sample) noexcept {
  return sample.length() - std::max<std::int64_t>(sample.prompt, sample.length() > 0 ? 1 : 0);
}
/// Returns T_s, the number of a sample's loss tokens: the number of set values in its loss mask, as counted
/// by its owner, or response_loss_tokens() if it has no mask.
[[nodiscard]] constexpr std::int64_t loss_tokens_of(const LengthEntry& entry) noexcept {
  return entry.loss_tokens < 0 ? response_loss_tokens(entry.shape) : entry.loss_tokens;
}

/// Returns the number of a sample's loss tokens for the separate loss of the tokens `ahead` positions after
/// the labels. With pack.predict_ahead, samples cannot supply masks, so the result depends only on their
/// lengths.
[[nodiscard]] constexpr std::int64_t loss_tokens_ahead(const LengthEntry& entry,
                                                       std::int64_t ahead) noexcept {
  if (ahead == 0) return loss_tokens_of(entry);
  const SampleShape& sample = entry.shape;
  return std::max<std::int64_t>(sample.length() - std::max(sample.prompt, ahead + 1), 0);
}

/// Returns the weights of a DP rank's micro-batches of one mini-batch. `mini_batch` has the mini-batch's
/// entries over all DP ranks. With `ahead` > 0, returns the weights of the separate loss of the tokens
/// `ahead` positions after the labels. Pure and exact: the numbers of loss tokens, samples and prompts are
/// integers over the whole mini-batch, each weight is one division, and nothing is added to a denominator. A
/// mini-batch without loss tokens has zero weights.
///
/// Invariants: except for mindspeed_rl, the loss is the same for every split, order, number of empty
/// micro-batches and CP size. For token_mean, seq_mean_token_mean and prompt_mean, the token weights sum to 1
/// over the mini-batch's loss tokens (unless fully masked samples count). Throws ConfigError if
/// norm_length < 1.
[[nodiscard]] std::vector<MicroBatchLoss> loss_weights(const LengthTable& table,
                                                       std::span<const EntryId> mini_batch,
                                                       std::span<const MicroBatchPlan> micro_batches,
                                                       const LossSettings& settings, int dp,
                                                       std::int64_t ahead = 0);

/// Returns the weights of a DP rank's micro-batches of all mini-batches, which are grouped by mini-batch. See
/// loss_weights() for one mini-batch.
[[nodiscard]] std::vector<MicroBatchLoss> loss_weights(const LengthTable& table,
                                                       const StepAssignment& assignment,
                                                       std::span<const MicroBatchPlan> micro_batches,
                                                       const LossSettings& settings, int dp,
                                                       std::int64_t ahead = 0);

}  // namespace evenkeel
