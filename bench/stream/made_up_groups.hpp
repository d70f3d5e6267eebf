#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/samples/lengths_file.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::bench {

/// Lengths of prompts and responses from which to draw groups.
struct GroupLengths {
  std::string name;
  std::vector<FileLengths> rows;
};

/// Returns responses with a long tail (log-normal, up to about ten times the median) and prompts of 64 to 512
/// tokens.
[[nodiscard]] GroupLengths long_tail(std::int64_t cap);
/// Reads the lengths of a file, without rows above the cap. Throws InputError if there are no others.
[[nodiscard]] GroupLengths lengths_of_file(const std::string& path, std::int64_t cap);

/// Returns groups with this number of responses per prompt, drawn from rows; nothing is above the cap.
[[nodiscard]] std::vector<stream::WaitingGroup> made_up_groups(const GroupLengths& lengths,
                                                               std::int64_t groups, std::int64_t group_size,
                                                               std::int64_t cap, std::uint64_t seed);

/// Returns the order in which an engine with this number of slots finishes groups that it starts in the given
/// order, if each slot generates one token at a time: short ones first, among those that have been started.
[[nodiscard]] std::vector<stream::WaitingGroup> as_finished(std::span<const stream::WaitingGroup> started,
                                                            std::int64_t slots);

}  // namespace evenkeel::bench
