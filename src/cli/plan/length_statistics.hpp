#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel::cli {

/// Returns the mean, quantiles and a histogram of some lengths, for people. `lengths` need not be sorted.
[[nodiscard]] std::string length_statistics(std::vector<std::int64_t> lengths);

}  // namespace evenkeel::cli
