#pragma once

#include <string>

#include "evenkeel/mesh/communicator.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Collective over `comm`: returns the schema of all lines, merged from the schemas of the ranks' parts.
/// `names` provides the line names used in error messages. Throws the errors of merge() and
/// require_valid_fields(), the same error on every rank.
[[nodiscard]] JsonlSchema merge_over_ranks(const Communicator& comm, const JsonlSchema& mine,
                                           const LineNames& names);

/// Throws at `where` if steps would not accept the field (require_valid_samples). Local.
void require_valid_field(const FieldSpec& spec, const std::string& where);

/// Throws if steps would not accept one of the fields (require_valid_samples), at the "PATH:LINE" of the line
/// that determined the field. Local.
void require_valid_fields(const JsonlSchema& schema, const LineNames& names);

}  // namespace evenkeel
