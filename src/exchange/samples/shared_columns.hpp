#pragma once

#include <functional>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "mesh/fail_together.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

// A rank can lend tensors to other ranks of its node, which read them in place. The lender keeps lent columns
// unchanged in its shared heap until every borrower has released them, even if its own trainer modifies or
// destroys its tensors. Borrowers release columns without sending a message: each borrower sets one word per
// loan in shared memory, and the lender checks these words in end_returned_loans().

/// Shares columns of rank `lender`'s micro-batches with the other ranks, whose micro-batches are equal but
/// lack these columns. The lender offers the columns for which its `chosen` returns true; each borrower takes
/// those for which its own `chosen` returns true. Borrowers read large columns in place, and copy small ones.
/// The lender's columns become lent (see Column::lend).
///
/// Collective over `comm`. Its ranks must all be on one node, and `memory` must be the NodeMemory of `comm`.
/// Throws only if MPI fails; other errors of this rank go to `work`. A rank whose work has already failed
/// neither lends nor borrows.
void share_columns(const Communicator& comm, NodeMemory& memory, int lender,
                   const std::function<bool(const FieldSpec&)>& chosen,
                   std::vector<PackedMicroBatch>& micro_batches, GuardedWork& work);

/// Frees the columns of this process's loans that all borrowers have returned. Local.
void end_returned_loans();

}  // namespace evenkeel
