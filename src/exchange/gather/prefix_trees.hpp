#pragma once

#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// Collective over `comm`: the trees that the samples of each uid make, on every rank, in the order of their
/// first entries; every entry is in one. Lengths alone cannot tell what samples have in common, so the owner
/// of a group's first entry is sent the tokens of those of its samples that live elsewhere (usually none: one
/// rank rolls out a prompt), and tells all ranks the tree's structure, which has no tokens.
///
/// `ahead` is as in PrefixTree::of_tokens. `mine` holds this rank's samples of the table with their tokens.
/// Where samples tell their tree (segment_ids_field), it is as they say, and what stands for tokens above is
/// what segment_keys() makes of that. Whether tokens agree with it is for require_equal_shared_rows.
/// Deterministic. Throws on every rank what segment_keys throws on one.
[[nodiscard]] std::vector<SharedGroup> gather_prefix_trees(const Communicator& comm, const LengthTable& table,
                                                           const RaggedBatch& mine, std::int64_t ahead,
                                                           const TransportSettings& options);

}  // namespace evenkeel
