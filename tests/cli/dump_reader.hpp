#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"

namespace evenkeel::testing_support {

/// A copy of one micro-batch of one (dp, cp) position, as found in a dump.
struct DumpedPart {
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> position_ids;
  std::vector<float> loss_mask;
  std::vector<std::int32_t> cu_seqlens;
  std::vector<std::int32_t> cu_seqlens_padded;
  std::vector<std::int64_t> sample_index;
  std::string num_tokens;
  std::string layout;
  double loss_weight = 0;

  friend bool operator==(const DumpedPart&, const DumpedPart&) = default;
};

/// Reads one file of a dump. Throws if something required is missing.
[[nodiscard]] DumpedPart read_part(const std::filesystem::path& file);

/// Returns the number of steps in a dump, and the number of micro-batches in one rank's folder.
[[nodiscard]] std::int64_t count_steps(const std::filesystem::path& dump);
[[nodiscard]] std::int64_t count_micro_batches(const std::filesystem::path& folder);

/// The options of a run that its dump depends on.
struct DumpExpectation {
  GridPoint mesh;
  bool zigzag = true;
  std::int64_t cap = 0;
  std::int64_t alignment = 1;
  std::int64_t steps = 1;
};

/// Checks a dump against the rollouts it was made from, from the definitions and without the library's
/// layouts: all copies agree, CP shares merge back to each sample's tokens, labels, positions and loss mask;
/// no micro-batch is above the cap; counts agree over DP ranks; every sample comes exactly once; weights sum
/// to the number of DP ranks. Failures are reported through gtest.
void expect_dump_matches(const std::filesystem::path& dump, const std::filesystem::path& rollouts,
                         const DumpExpectation& expected);

}  // namespace evenkeel::testing_support
