#pragma once

#include <string>

#include "evenkeel/mesh/communicator.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Collective over `comm`: returns the schema of all lines, merged from the schemas of the ranks' parts.
/// `names` provides the line names used in error messages. Throws the same error on every rank if schemas
/// contradict each other (see merge()), or if steps would not accept a field (see require_valid_fields()).
[[nodiscard]] JsonlSchema merge_over_ranks(const Communicator& comm, const JsonlSchema& mine,
                                           const LineNames& names);

/// Throws an error with location `where` if steps would not accept the field (see require_valid_samples()).
/// Local.
void require_valid_field(const FieldSpec& spec, const std::string& where);

/// Throws an error if steps would not accept one of the fields (see require_valid_samples()). The error's
/// location is the "PATH:LINE" of the line that determined the field's type. Local.
void require_valid_fields(const JsonlSchema& schema, const LineNames& names);

}  // namespace evenkeel
