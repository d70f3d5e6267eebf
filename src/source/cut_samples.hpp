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

/// A sample of one of several batches, or a piece of such a sample.
struct Cut {
  std::size_t batch = 0;    ///< index of the batch that has the sample
  std::int64_t index = 0;   ///< index of the sample in its batch
  RowRange tokens;          ///< range of the sample's tokens that the resulting sample has
  SampleId id{0};           ///< id of the resulting sample
  std::uint64_t group = 0;  ///< group of the resulting sample
};

/// Checks that samples with these fields can be cut. Does nothing if the filter's statistics, `counts`, show
/// that no sample is cut. A field of kind rows can be cut only if `settings` names the field that contains
/// the token range of each row (FieldSettings::cut_by). Throws InputError about the source `name` if
/// `settings` does not name such a field, or if the named field is missing or does not have the form of token
/// ranges.
void require_rows_can_be_cut(std::span<const SourceField> fields, const NamedFields& settings,
                             const std::string& name, const FilterCounts& counts);

/// Returns the cuts, in their order, as one batch. A piece has
/// - in fields per token, the rows of its tokens; in fields per response token, the rows of its response
///   tokens;
/// - in fields with their own rows that are cut by another field (FieldSettings::cut_by in `settings`), and
///   in that other field, the rows with at least one token in the piece;
/// - in fields per sample, text and bytes, all rows of the sample.
/// The prompt of a piece is the part of the sample's prompt that is in the piece. Token ranges are rebased to
/// the piece's first token and clipped to the piece. If samples declare trees, each piece that does not begin
/// at its sample's first token gets a hash of what identifies the preceding tokens: their segment ids, and
/// the tokens of a prompt without segment ids (RaggedBatch::contexts). Two such pieces therefore share tokens
/// only if these are equal. Fields are in the order of the first cut's batch. O(bytes).
///
/// A loss mask with one value per token belongs to the rows that predict tokens (unless FieldSettings::at is
/// token). If a piece ends before its sample does, the mask value of the piece's last row becomes 0, because
/// the token that this row predicts is not in the piece. If the batch has one label per token, the value is
/// kept.
///
/// Throws InputError if token ranges are outside their sample. Preconditions: all batches named by `cuts`
/// have the same fields, and require_rows_can_be_cut() accepts them.
///
/// Example: tokens [2, 5) of a sample with prompt 3 and response 4 have a prompt of 1 and a response of 2,
/// which is rows 0 and 1 of the sample's response. If the sample has rows with the token ranges [0, 3)
/// and [3, 7), the piece has both, with the ranges [0, 1) and [1, 3).
[[nodiscard]] RaggedBatch cut_samples(std::span<const RaggedBatch> batches, std::span<const Cut> cuts,
                                      const NamedFields& settings = {});

}  // namespace evenkeel
