#pragma once

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/loss.hpp"

namespace evenkeel {

/// Makes a micro-batch's loss weights a tensor beside its loss mask, in place of any that it has: omega where
/// the mask is set, 0 elsewhere. Without effect where it has no mask, as on most pipeline stages.
void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss);

}  // namespace evenkeel
