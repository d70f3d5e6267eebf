#pragma once

#include <string>

#include "evenkeel/mesh/communicator.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Collective over `comm`: the schema of all lines, which are called so, from those of the ranks' parts.
/// Throws the same error on every rank: whatever merge() and require_valid_fields() refuse.
[[nodiscard]] JsonlSchema merge_over_ranks(const Communicator& comm, const JsonlSchema& mine,
                                           const LineNames& names);

/// Refuses a field that no step would take (require_valid_samples), at `where`. Local.
void require_valid_field(const FieldSpec& spec, const std::string& where);

/// Refuses fields that no step would take (require_valid_samples), at "PATH:LINE" of the line that made the
/// field what it is. Local.
void require_valid_fields(const JsonlSchema& schema, const LineNames& names);

}  // namespace evenkeel
