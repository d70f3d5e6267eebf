#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel::cli {

/// A table of the mean, quantiles and a histogram of some lengths, for people, in lines of `width`
/// characters. `lengths` need not be sorted.
[[nodiscard]] std::string length_statistics(std::vector<std::int64_t> lengths, std::size_t width);

}  // namespace evenkeel::cli
