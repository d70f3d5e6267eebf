#pragma once

#include "evenkeel/service/step.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/exchanged.hpp"
#include "service/step/planned.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

// The third stage of a later pass over a step, in two parts.

/// Collective over everyone: the tensors that the pass before left on this rank, regrouped if micro-batches
/// differ. If samples go to other ranks, they are sent again. Takes the tensors out of `before`. Errors go to
/// `work`, or are thrown on all ranks; so below.
[[nodiscard]] ExchangedSamples pass_on(const StepContext& context, Step& before, Planned& planned,
                                       GuardedWork& work);

/// Collective over everyone: sends the added fields, and computes the weights of micro-batches in the loss.
[[nodiscard]] Exchanged add_fields(const StepContext& context, const Step& before, Planned planned,
                                   ExchangedSamples passed, Added added, GuardedWork& work);

}  // namespace evenkeel
