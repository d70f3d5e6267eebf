#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel {

/// Definition of the loss of a whole mini-batch. T, B and P are the numbers of loss tokens, samples and
/// prompts of a mini-batch over all DP ranks; T_s is a sample's number of loss tokens, G_p a prompt's number
/// of samples, l a token's loss.
enum class LossAggregation : std::uint8_t {
  token_mean,               ///< sum of l / T
  token_sum,                ///< sum of l
  seq_mean_token_sum,       ///< sum over samples of (sum of l) / B
  seq_mean_token_mean,      ///< sum over samples of (sum of l / T_s) / B
  seq_mean_token_sum_norm,  ///< sum over samples of (sum of l / H) / B, with a fixed H (Dr. GRPO)
  prompt_mean,              ///< mean over prompts of the mean over their samples of (sum of l / T_s)
  /// MindSpeed-RL's own rule, for comparison: each micro-batch's token mean has weight b_m / B_rank (its
  /// number of samples and its DP rank's), and the loss is the mean over DP ranks.
  mindspeed_rl,
};

enum class Reduction : std::uint8_t { sum, mean };

/// Whether a sample without loss tokens counts toward B, G_p and P.
enum class FullyMasked : std::uint8_t { count, skip };

struct LossSettings {
  LossAggregation aggregation = LossAggregation::token_mean;
  Reduction micro_batches = Reduction::sum;  ///< how the trainer reduces over a rank's micro-batches
  Reduction dp_ranks = Reduction::mean;      ///< how the trainer reduces over DP ranks
  FullyMasked fully_masked = FullyMasked::count;
  std::int64_t norm_length = 1;  ///< H, in tokens

  friend bool operator==(const LossSettings&, const LossSettings&) = default;
};

/// The weights of one micro-batch.
struct MicroBatchLoss {
  /// For each entry: omega, the weight of every loss token, such that the loss of the mini-batch is the sum
  /// of omega * l over all tokens.
  std::vector<double> token_weights;
  /// Factor for the sum of omega * l; with it, the trainer's own reductions give the loss of the mini-batch
  /// exactly.
  double scale = 1;
  /// For trainers that take local means: factor for the micro-batch's own mean (over its loss tokens; over
  /// its samples in the seq-mean modes; over its loss tokens, weighted by omega, for prompt_mean), to be used
  /// instead. 0 for an empty micro-batch.
  double mean_weight = 0;
  /// With pack.predict_ahead: the token_weights of the separate loss at each depth k, starting at 1, for the
  /// tokens k positions after the labels. `scale` is the same.
  std::vector<std::vector<double>> token_weights_ahead = {};

  friend bool operator==(const MicroBatchLoss&, const MicroBatchLoss&) = default;
};

}  // namespace evenkeel
