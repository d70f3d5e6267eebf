#pragma once

#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// Collective over `comm`: returns the prefix trees of the samples of each uid, on every rank, in the order
/// of the trees' first entries. Every entry of the table is in exactly one tree. Deterministic.
///
/// 1. Lengths do not show which tokens samples have in common. Therefore, the owner of a group's first entry
///    receives the tokens of the group's samples on other ranks. Usually there are no such samples, because
///    one rank rolls out all samples of a prompt.
/// 2. The owner builds the tree and sends its structure, without tokens, to all ranks.
///
/// `ahead` is passed to PrefixTree::from_tokens(). `mine` holds this rank's samples of the table with their
/// tokens. If samples declare their tree in segment_ids_field, the result of token_keys() replaces the
/// tokens; require_equal_shared_rows() checks that tokens agree with it. If token_keys() throws on any rank,
/// every rank throws the error.
[[nodiscard]] std::vector<SharedGroup> gather_prefix_trees(const Communicator& comm, const LengthTable& table,
                                                           const RaggedBatch& mine, std::int64_t ahead,
                                                           const TransportSettings& options);

}  // namespace evenkeel
