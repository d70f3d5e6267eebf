#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/samples/lengths_file.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::bench {

/// Lengths of prompts and responses to draw groups from.
struct GroupLengths {
  std::string name;
  std::vector<FileLengths> rows;
};

/// Responses with a long tail (log-normal, some ten times the median), prompts of 64 to 512 tokens.
[[nodiscard]] GroupLengths long_tail(std::int64_t cap);
/// Of a file, without rows above the cap. Throws InputError if none is left.
[[nodiscard]] GroupLengths lengths_of_file(const std::string& path, std::int64_t cap);

/// Groups of that many responses to one prompt, drawn from rows; nothing is above the cap.
[[nodiscard]] std::vector<stream::WaitingGroup> made_up_groups(const GroupLengths& lengths,
                                                               std::int64_t groups, std::int64_t group_size,
                                                               std::int64_t cap, std::uint64_t seed);

/// The order in which an engine with so many slots finishes groups that it starts in this order, a token of
/// each slot at a time: short ones first, as far as they are started.
[[nodiscard]] std::vector<stream::WaitingGroup> as_finished(std::span<const stream::WaitingGroup> started,
                                                            std::int64_t slots);

}  // namespace evenkeel::bench
