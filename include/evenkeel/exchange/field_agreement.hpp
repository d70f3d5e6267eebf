#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Collective over `comm`: the fields that all ranks which have data bring, by name. Ranks without data
/// (nothing in `mine`) learn them; when two ranks with data disagree, every rank throws the same InputError
/// that names a field, both ranks and what each has. None when nobody has data. A rank may bring an error
/// instead, and `call` says in words what is agreed for: both as in gather_lengths, whose first collective
/// this one's is, so that ranks that call the one and the other are told so. One all-gather of 32 bytes a
/// rank when all agree and all have data.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const boost::mpi::communicator& comm,
                                                     std::optional<std::vector<FieldSpec>> mine,
                                                     const std::optional<ErrorReport>& my_error = {},
                                                     std::string_view call = {});

/// The fields of samples: a rank has data when it has samples. Local.
[[nodiscard]] std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch);

}  // namespace evenkeel
