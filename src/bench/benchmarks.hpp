#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "bench/report.hpp"

namespace evenkeel::bench {

/// The copy kernels against memcpy of the same bytes, and against loops over sequences in PyTorch.
struct PackOptions {
  std::size_t sequences = 1024;
  std::size_t row_bytes = 8;
  int cp = 4;
  std::uint64_t seed = 7;
  int rounds = 41;
  std::string python = "python3";
};
[[nodiscard]] Report bench_pack(const PackOptions& options);

}  // namespace evenkeel::bench
