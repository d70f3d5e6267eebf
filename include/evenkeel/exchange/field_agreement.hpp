#pragma once

#include <boost/mpi/communicator.hpp>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Collective over `comm`: the fields that every rank's samples have. Ranks without samples learn them; when
/// two ranks with samples disagree, every rank throws the same InputError that names a field, both ranks and
/// what each has. One all-reduce of four words when all agree and all have samples.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const boost::mpi::communicator& comm,
                                                     const RaggedBatch& mine);

}  // namespace evenkeel
