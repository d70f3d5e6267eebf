#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cost/cost_fit.hpp"

namespace evenkeel::cli {

/// The time that a micro-batch of these samples took.
struct TimedMicroBatch {
  std::vector<std::int64_t> lengths;
  double seconds = 0;

  [[nodiscard]] CostObservation observation() const;
};

/// Reads times of micro-batches from a .csv file. Its first line names the columns: `seconds`, and `length`
/// for single samples or `lengths` for several, separated by spaces; other columns are ignored. Values must
/// not be quoted. Throws InputError at "PATH:LINE" for a line without valid values, and for a file without
/// times; IoError for a file that cannot be read.
[[nodiscard]] std::vector<TimedMicroBatch> read_times(const std::filesystem::path& path);

}  // namespace evenkeel::cli
