#pragma once

#include "evenkeel/batch/ragged_batch.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// What adds step, group and index to errors about samples of this step, which have the numbers of their
/// arrivals alone, and says how the step can do without them. Errors about other samples stay as they are.
[[nodiscard]] NamesInErrors names_of_samples(stream::FormedStep step);

}  // namespace evenkeel
