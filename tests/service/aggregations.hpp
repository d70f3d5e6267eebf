#pragma once

#include "evenkeel/plan/loss.hpp"

namespace evenkeel::test {

/// All whose loss does not depend on how a step is split.
inline constexpr LossAggregation all_aggregations[] = {LossAggregation::token_mean,
                                                       LossAggregation::token_sum,
                                                       LossAggregation::seq_mean_token_sum,
                                                       LossAggregation::seq_mean_token_mean,
                                                       LossAggregation::seq_mean_token_sum_norm,
                                                       LossAggregation::prompt_mean};

}  // namespace evenkeel::test
