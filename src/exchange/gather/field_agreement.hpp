#pragma once

#include <optional>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "exchange/gather/call_key.hpp"

namespace evenkeel {

/// What a rank brings to an agreement on fields.
struct FieldsBrought {
  std::optional<std::vector<FieldSpec>> fields{};  ///< nothing when the rank has no data
  CallKey call{};                                  ///< compared over ranks
};

/// Collective over `comm`: the fields that all ranks which have data bring, by name. Ranks without data learn
/// them; when two ranks with data disagree, every rank throws the same InputError that names a field, both
/// ranks and what each has; when ranks have different calls in mind, one that tells what each does. When any
/// rank brings an error instead, all ranks throw that. None when nobody has data. One all-gather of seven
/// words a rank when all agree and all have data.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const Communicator& comm, FieldsBrought mine,
                                                     const std::optional<ErrorReport>& error = {});

/// The fields of samples: a rank has data when it has samples. Local.
[[nodiscard]] std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch);

}  // namespace evenkeel
