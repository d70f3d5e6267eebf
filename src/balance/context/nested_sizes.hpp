#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/schedule.hpp"

namespace evenkeel::context {

/// Lists of sizes, ascending from 1, whose blocks, side by side from rank 0, lie inside those of all larger
/// sizes of the list or outside of them, as a tree needs it: each divides the next, or that is all ranks.
///
/// The first are the powers of two, the only one where sizes are such. With any sizes: the largest that may
/// be alone; and powers of two that go on as 3, 5 and 7 times powers of two, each with all ranks where a
/// group may have these. Of these further lists, sizes below a node's that do not divide it are left out
/// where there are several nodes, since some of their blocks would lie across two. O(log(max_size)) lists, no
/// two alike.
[[nodiscard]] std::vector<std::vector<std::int64_t>> nested_sizes(const Problem& problem);

}  // namespace evenkeel::context
