#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "evenkeel/plan/loss.hpp"

namespace evenkeel::testing_support {

/// All aggregations whose loss does not depend on how a step is split.
inline constexpr std::array all_aggregations{LossAggregation::token_mean,
                                             LossAggregation::token_sum,
                                             LossAggregation::seq_mean_token_sum,
                                             LossAggregation::seq_mean_token_mean,
                                             LossAggregation::seq_mean_token_sum_norm,
                                             LossAggregation::prompt_mean};

/// The sum of the losses of a sample's loss tokens, and the number of these tokens. `Value` is a double, or a
/// number with derivatives.
template <typename Value>
struct SampleLoss {
  std::uint64_t group = 0;
  Value sum{};
  std::int64_t tokens = 0;
};

/// Returns the loss of samples without splitting, computed from its definition.
template <typename Value>
Value whole_loss(const std::vector<SampleLoss<Value>>& samples, LossAggregation aggregation,
                 std::int64_t norm_length) {
  std::int64_t tokens = 0;
  std::map<std::uint64_t, double> samples_of_prompts;
  for (const SampleLoss<Value>& sample : samples) {
    tokens += sample.tokens;
    ++samples_of_prompts[sample.group];
  }
  const auto count = static_cast<double>(samples.size());
  const auto prompts = static_cast<double>(samples_of_prompts.size());
  Value loss{};
  for (const SampleLoss<Value>& sample : samples) {
    const auto own = static_cast<double>(std::max<std::int64_t>(1, sample.tokens));
    double divisor = 1;  // of the sample's sum
    switch (aggregation) {
      case LossAggregation::token_mean:
        divisor = static_cast<double>(std::max<std::int64_t>(1, tokens));
        break;
      case LossAggregation::token_sum:
        break;
      case LossAggregation::seq_mean_token_sum:
        divisor = count;
        break;
      case LossAggregation::seq_mean_token_mean:
        divisor = own * count;
        break;
      case LossAggregation::seq_mean_token_sum_norm:
        divisor = static_cast<double>(norm_length) * count;
        break;
      case LossAggregation::prompt_mean:
        divisor = own * samples_of_prompts.at(sample.group) * prompts;
        break;
      case LossAggregation::mindspeed_rl:  // depends on the split
        return {};
    }
    loss = loss + sample.sum * Value{1 / divisor};
  }
  return loss;
}

}  // namespace evenkeel::testing_support
