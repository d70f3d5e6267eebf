#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/padded.hpp"

namespace evenkeel {

/// Throws InputError when sequence `index` cannot have a prompt of this many tokens.
inline void require_prompt(std::int64_t index, std::int64_t prompt, std::int64_t length) {
  if (prompt >= 0 && prompt <= length) return;
  throw InputError(
      "sequence " + std::to_string(index),
      "has a prompt of " + std::to_string(prompt) + " tokens in a length of " + std::to_string(length));
}

/// Throws InputError unless the mask has one row for each expected length, with as many ones.
/// `mask_name` and `row_name` are what messages call the mask and what a row stands for.
inline void require_row_lengths(const PaddedMask& mask, std::span<const std::int64_t> expected,
                                const char* mask_name, const char* row_name) {
  const std::vector<std::int64_t> lengths = lengths_of(mask);
  if (lengths.size() != expected.size()) {
    throw InputError(mask_name, "has " + std::to_string(lengths.size()) + " rows; " +
                                    std::to_string(expected.size()) + " are needed, one for each " +
                                    row_name);
  }
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    if (lengths[row] == expected[row]) continue;
    throw InputError(mask_name, "row " + std::to_string(row) + " has " + std::to_string(lengths[row]) +
                                    " ones; " + row_name + " " + std::to_string(row) + " has " +
                                    std::to_string(expected[row]) + " tokens");
  }
}

}  // namespace evenkeel
