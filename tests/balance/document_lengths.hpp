#pragma once

#include <vector>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel::test {

/// The lengths that the documentation of the covered systems balances in its examples.
inline const std::vector<Cost> document_lengths = {1, 2, 2, 5, 3, 7, 6, 3};

}  // namespace evenkeel::test
