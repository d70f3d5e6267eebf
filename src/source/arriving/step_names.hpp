#pragma once

#include "evenkeel/batch/ragged_batch.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// Returns a function that completes error reports about samples of this step. These reports identify samples
/// only by arrival number. The function adds the step, the samples' groups and indices, and a hint on how to
/// make the step without these groups. It does not change reports about samples of other steps.
[[nodiscard]] NamesInErrors names_of_samples(stream::FormedStep step);

}  // namespace evenkeel
