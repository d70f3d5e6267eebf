#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel {

/// What the un-split loss of a step is. T, B and P are the loss tokens, samples and prompts of a
/// mini-batch over all DP ranks; T_s is a sample's loss tokens, G_p a prompt's samples, l a token's loss.
enum class LossAggregation : std::uint8_t {
  token_mean,               ///< sum of l / T
  token_sum,                ///< sum of l
  seq_mean_token_sum,       ///< sum over samples of (sum of l) / B
  seq_mean_token_mean,      ///< sum over samples of (sum of l / T_s) / B
  seq_mean_token_sum_norm,  ///< sum over samples of (sum of l / H) / B, with a fixed H (Dr. GRPO)
  prompt_mean,              ///< mean over prompts of the mean over their samples of (sum of l / T_s)
  mindspeed_rl,  ///< MindSpeed-RL's own rule, for comparison: each micro-batch's token mean counts b_m /
                 ///< B_rank
};

enum class Reduction : std::uint8_t { sum, mean };

/// Whether a sample without loss tokens counts in B, G_p and P.
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
  /// For each of its entries: omega of every loss token, so that the un-split loss is the sum of omega * l
  /// over all tokens.
  std::vector<double> token_weights;
  /// Multiply the sum of omega * l by this, and the trainer's own reductions give the un-split loss exactly.
  double scale = 1;
  /// For trainers that take local means: multiply the micro-batch's own mean (over its loss tokens, or over
  /// its samples in the seq-mean modes) by this instead. 0 for an empty micro-batch.
  double mean_weight = 0;
  /// With pack.predict_ahead, for each depth from 1 on: token_weights of its own loss, that of the tokens so
  /// many after the labels. `scale` is the same.
  std::vector<std::vector<double>> token_weights_ahead = {};

  friend bool operator==(const MicroBatchLoss&, const MicroBatchLoss&) = default;
};

}  // namespace evenkeel
