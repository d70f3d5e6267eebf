#pragma once

#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/mesh.hpp"

namespace evenkeel {

/// What a consumer computed for one micro-batch: columns whose kind says what a row belongs to.
/// - token: one row a local packed row; row t of a sequence belongs to token t.
/// - response_token: one row a local packed row too; the row that predicts response token t, row t-1, is its
/// result.
///   With shared prefixes: one row a prediction (see SharedSequences).
/// - sample: one row a sample.
/// - rows, text, bytes: any number a sample, the same on all members of its group; the first one's count.
/// A shared row's token result goes to every sample that has the row.
struct MicroBatchResults {
  std::vector<Column> fields;
};

/// Whose results count: of each (dp, cp) place the first tensor-parallel rank of the last pipeline stage. All
/// tensor-parallel ranks have the same, and earlier stages have none.
[[nodiscard]] bool reports_results(const Mesh& mesh) noexcept;

}  // namespace evenkeel
