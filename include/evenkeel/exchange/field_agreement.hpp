#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Collective over `comm`: the fields that all ranks which have data bring, by name. Ranks without data
/// (nothing in `mine`) learn them; when two ranks with data disagree, every rank throws the same InputError
/// that names a field, both ranks and what each has. None when nobody has data. One all-gather of two words
/// a rank when all agree and all have data.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const boost::mpi::communicator& comm,
                                                     std::optional<std::vector<FieldSpec>> mine);

/// The fields of samples: a rank has data when it has samples. Local.
[[nodiscard]] std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch);

}  // namespace evenkeel
