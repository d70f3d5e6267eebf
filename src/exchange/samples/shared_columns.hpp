#pragma once

#include <functional>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "mesh/fail_together.hpp"
#include "transport/shared/node_memory.hpp"

namespace evenkeel {

/// Tensors that ranks of a node read where another rank keeps them. The lender keeps lent columns as they
/// are, in its shared heap, until every borrower has let go of them, whatever its own trainer does with
/// them meanwhile. Borrowers say so without a message: each loan has a word of theirs, which the lender looks
/// at before it lends again.

/// Collective over `comm`, whose ranks are all on one node with `memory`: columns of rank `lender`'s
/// micro-batches become those of the others too, which have the same micro-batches without these: of those
/// that the lender's `chosen` accepts, all that a borrower's does. Large columns are borrowed, small ones
/// copied; the lender's own are lent (see Column::lend). Throws only when MPI fails: what goes wrong on this
/// rank goes to `work`. A rank whose work has failed before lends or borrows nothing.
void share_columns(const Communicator& comm, NodeMemory& memory, int lender,
                   const std::function<bool(const FieldSpec&)>& chosen,
                   std::vector<PackedMicroBatch>& micro_batches, GuardedWork& work);

/// Lets go of everything that this process lent and all borrowers have given back. Local.
void end_returned_loans();

}  // namespace evenkeel
