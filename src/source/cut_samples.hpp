#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/source/sample_source.hpp"

namespace evenkeel {

/// A sample, or a piece of one, of one of several batches.
struct Cut {
  std::size_t batch = 0;
  std::int64_t index = 0;  ///< of the sample in its batch
  RowRange tokens;         ///< of the sample
  SampleId id{0};          ///< that it gets
  std::uint64_t group = 0;
};

/// Throws InputError about a source's `name` where samples of these `fields` are to be cut, as `counts` tell,
/// and nothing in `told` (FieldSettings::cut_by) says which rows of a field go with which of their tokens.
void require_rows_can_be_cut(std::span<const SourceField> fields, const NamedFields& told,
                             const std::string& name, const FilterCounts& counts);

/// The cuts in their order as one batch. A piece has the rows of its tokens in fields of tokens, those of its
/// response tokens in fields of response tokens, those that have a token of it in fields of rows that `told`
/// lets another field cut (FieldSettings::cut_by), and all of the sample's rows in fields of samples, text
/// and bytes; its prompt is what of the sample's prompt is in it. Ranges of tokens are counted from its first
/// token on, and end with it. The batch knows the contexts of pieces that do not begin their sample, so that
/// these share tokens only as their samples do. Fields are those of the batches that are cut from, in the
/// order of the first. Throws InputError where ranges of tokens are no ranges of their sample's. O(bytes).
/// Preconditions: all batches that are cut from have the same fields; require_rows_can_be_cut() accepts what
/// is cut.
///
/// Example: tokens [2, 5) of a sample of prompt 3 and response 4 have a prompt of 1 and a response of 2,
/// whose rows are the response's 0 and 1. Of rows of the tokens [0, 3) and [3, 7) it has both, as of [0, 1)
/// and [1, 3).
[[nodiscard]] RaggedBatch cut_samples(std::span<const RaggedBatch> batches, std::span<const Cut> cuts,
                                      const NamedFields& told = {});

}  // namespace evenkeel
