#pragma once

#include "evenkeel/service/step.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/exchanged.hpp"
#include "service/step/planned.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

// The third stage of a pass that is not a step's first one, in two parts.

/// Collective over everyone: what the pass before left on this rank, put together anew where micro-batches
/// differ; where samples go to other ranks, they are sent again. Takes the tensors out of `before`. What goes
/// wrong goes to `work`, or is thrown on all ranks; so below.
[[nodiscard]] ExchangedSamples pass_on(const StepContext& context, Step& before, Planned& planned,
                                       GuardedWork& work);

/// Collective over everyone: sends the fields that came up since, and has the micro-batches weighed.
[[nodiscard]] Exchanged add_fields(const StepContext& context, Planned planned, ExchangedSamples passed,
                                   Added added, GuardedWork& work);

}  // namespace evenkeel
