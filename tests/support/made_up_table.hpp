#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::testing_support {

/// Returns samples 0..n-1 with these response lengths and without prompts, owned by `owners` ranks in turn.
inline LengthTable table_of(const std::vector<std::int64_t>& lengths, int owners = 1) {
  std::vector<LengthEntry> entries;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    entries.push_back({{SampleId{id}, 0, 0, lengths[i]},
                       WorldRank{static_cast<int>(id % owners)},
                       static_cast<int>(id / owners)});
  }
  return LengthTable(std::move(entries));
}

/// Returns samples 0..n-1 with made-up shapes, owned by `owners` ranks in turn.
inline LengthTable made_up_table(std::int64_t samples, int owners, std::int64_t longest = 40) {
  std::vector<LengthEntry> entries;
  for (std::int64_t id = 0; id < samples; ++id) {
    entries.push_back({made_up_shape(id, longest), WorldRank{static_cast<int>(id % owners)},
                       static_cast<int>(id / owners)});
  }
  return LengthTable(std::move(entries));
}

}  // namespace evenkeel::testing_support
