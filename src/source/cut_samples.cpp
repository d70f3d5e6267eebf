#include "source/cut_samples.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "plan/schedule/row_conventions.hpp"
#include "plan/transfer/row_cuts.hpp"
#include "plan/units/segments.hpp"

namespace evenkeel {
namespace {

const SampleShape& sample_of(const RaggedBatch& from, const Cut& cut) {
  return from.samples()[static_cast<std::size_t>(cut.index)];
}

SampleShape shape_of(const RaggedBatch& from, const Cut& cut) {
  const SampleShape& whole = sample_of(from, cut);
  const std::int64_t prompt = std::clamp<std::int64_t>(whole.prompt - cut.tokens.begin, 0, cut.tokens.size());
  return {cut.id, cut.group, prompt, cut.tokens.size() - prompt};
}

bool is_whole(const RaggedBatch& from, const Cut& cut) {
  return cut.tokens == RowRange{0, sample_of(from, cut).length()};
}

/// Returns the name of the field whose token ranges determine which of this field's rows are in a piece;
/// empty if there is no such field. The rows of a field of token ranges are determined by the field itself.
std::string_view cutting_field(const NamedFields& settings, std::string_view field) {
  const auto found = settings.find(field);
  if (found != settings.end() && !found->second.cut_by.empty()) return found->second.cut_by;
  return cuts_rows(settings, field) ? field : std::string_view();
}

/// Returns the rows of a column that have at least one token in the cut, according to their token ranges.
RowRange rows_of_tokens(const RaggedBatch& from, const Column& column, const Cut& cut, std::string_view by) {
  const RowRange all = from.rows_of(column, cut.index);
  if (is_whole(from, cut)) return all;
  EVENKEEL_PRECONDITION(cheap, !by.empty(), column.spec().name);
  const TokensOfRows tokens = tokens_of_rows(from.at(by), cut.index);
  require_valid_tokens_of_rows(tokens, all.size(), sample_of(from, cut), column.spec().name, std::string(by));
  const std::vector<RowRange> rows = tokens.rows_overlapping(std::span(&cut.tokens, 1));
  if (rows.empty()) return {all.begin, all.begin};
  return {all.begin + rows.front().begin, all.begin + rows.front().end};
}

/// Returns the cut's rows as a range of rows of `column`, which belongs to the batch `from`.
RowRange rows_of(const RaggedBatch& from, const Column& column, const Cut& cut, std::string_view by) {
  const RowRange all = from.rows_of(column, cut.index);
  const auto offset_range = [&](std::int64_t begin, std::int64_t end) {
    return RowRange{all.begin + begin, all.begin + end};
  };
  const FieldRule& rule = column.spec().rule();
  if (rule.is_cut_by_ranges) return rows_of_tokens(from, column, cut, by);
  switch (rule.rows_per) {
    case RowsPer::token:
      return offset_range(cut.tokens.begin, cut.tokens.end);
    case RowsPer::response_token: {
      const std::int64_t prompt = sample_of(from, cut).prompt;
      return offset_range(std::max<std::int64_t>(cut.tokens.begin - prompt, 0),
                          std::max<std::int64_t>(cut.tokens.end - prompt, 0));
    }
    case RowsPer::sample:
    case RowsPer::own_count:
      break;
  }
  return all;
}

/// Returns an uninitialized column for the rows of the field `spec` in all cuts.
Column allocate_column(const RaggedBatch& out, const FieldSpec& spec, std::span<const RaggedBatch> batches,
                       std::span<const Cut> cuts, std::string_view by) {
  if (!is_counted(spec.kind)) return Column::uninitialized(spec, out.rows_of(spec.kind));
  std::vector<std::int64_t> counts;
  counts.reserve(cuts.size());
  for (const Cut& cut : cuts) {
    const RaggedBatch& from = batches[cut.batch];
    counts.push_back(rows_of(from, *from.find(spec.name), cut, by).size());
  }
  return Column::uninitialized(spec, SampleRows::from_counts(counts));
}

/// Returns a hash of the column's rows in a cut.
std::uint64_t hash_of_rows(const RaggedBatch& from, const Column& column, const Cut& cut) {
  const RowRange rows = rows_of(from, column, cut, {});
  return hash_of_bytes({column.row(rows.begin), column.row(rows.end)});
}

/// If the sample declares its tree, returns a hash of the segment ids before the cut and, if only response
/// tokens have segment ids, of the prompt tokens before the cut; otherwise 0 (see RaggedBatch::contexts).
std::uint64_t context_of(const RaggedBatch& from, const Cut& cut) {
  const Column* const segments = from.find(segment_ids_field);
  if (segments == nullptr || cut.tokens.begin == 0) return 0;
  const FieldKind kind = segments->spec().kind;
  Cut before = cut;
  before.tokens = {0, cut.tokens.begin};
  if (rule_of(kind).is_per_token()) return hash_of_rows(from, *segments, before);
  if (!rule_of(kind).is_per_response_token()) return 0;  // planning rejects fields of other kinds later
  const std::uint64_t responses = hash_of_rows(from, *segments, before);
  before.tokens.end = std::min(before.tokens.end, sample_of(from, cut).prompt);
  return mix_64(responses) ^ hash_of_rows(from, from.at(input_ids_field), before);
}

/// Returns whether the batch has one label per token, in which case the last row of a piece also has a label.
bool has_labels_of_tokens(const RaggedBatch& from) {
  const Column* const labels = from.find(labels_field);
  return labels != nullptr && labels->spec().rule().is_per_token();
}

/// If a piece ends before the end of its sample, clears the last value of a loss mask with one value per
/// token: the label of that row is the next token, which is not in the piece. Does nothing for other fields,
/// or if there is one label per token.
void clear_last_mask_value(const RaggedBatch& from, const Cut& cut, const FieldSpec& spec,
                           std::span<std::byte> rows) {
  const bool ends_early = cut.tokens.end < sample_of(from, cut).length();
  const bool is_mask = spec.name == loss_mask_field || spec.name == response_mask_field;
  if (!ends_early || rows.empty() || !is_mask || !spec.rule().is_per_token()) return;
  if (!has_labels_of_tokens(from)) std::ranges::fill(rows.last(spec.row_bytes()), std::byte{0});
}

/// Rebases token ranges to the first token of the cut, and clips them to the cut.
void rebase_ranges(RowRange tokens, std::span<std::int64_t> ranges) {
  for (std::int64_t& bound : ranges) bound = std::clamp(bound, tokens.begin, tokens.end) - tokens.begin;
}

}  // namespace

void require_rows_can_be_cut(std::span<const SourceField> fields, const NamedFields& settings,
                             const std::string& name, const FilterCounts& counts) {
  const std::int64_t cut = counts.truncated + counts.split;
  if (cut == 0) return;
  for (const SourceField& brought : fields) {
    const FieldSpec& field = brought.spec;
    if (!field.rule().is_cut_by_ranges) continue;
    const std::string is_cut = "has a field '" + field.name + "' of kind rows, and batch.too_long cuts " +
                               format_plain_count(cut, "sample") + ", but ";
    const std::string keep = ", drop long samples instead (batch.too_long: drop), or leave the field out";
    const std::string by(cutting_field(settings, field.name));
    if (by.empty()) {
      throw InputError(name, is_cut + "the configuration does not say which rows belong to which tokens",
                       "Set fields." + field.name + ".cut_by" + keep);
    }
    const auto ranges =
        std::ranges::find(fields, by, [](const SourceField& other) { return other.spec.name; });
    if (ranges != fields.end() && has_form_of_ranges(ranges->spec)) continue;
    throw InputError(
        name,
        is_cut + "'" + by + "', which must say which rows belong to which tokens, " +
            (ranges == fields.end() ? "is missing"
                                    : "is not an int64 field of kind rows with rows of shape [2]"),
        "Provide a field with that name that has the token range of each row, [first token, last token + 1]" +
            keep);
  }
}

RaggedBatch cut_samples(std::span<const RaggedBatch> batches, std::span<const Cut> cuts,
                        const NamedFields& settings) {
  std::vector<SampleShape> shapes;
  shapes.reserve(cuts.size());
  for (const Cut& cut : cuts) shapes.push_back(shape_of(batches[cut.batch], cut));
  RaggedBatch out(std::move(shapes));
  if (cuts.empty()) return out;
  std::vector<std::uint64_t> contexts;
  contexts.reserve(cuts.size());
  for (const Cut& cut : cuts) contexts.push_back(context_of(batches[cut.batch], cut));
  const auto is_piece = [](std::uint64_t context) { return context != 0; };
  if (std::ranges::any_of(contexts, is_piece)) out.set_contexts(std::move(contexts));

  const std::size_t first = cuts.front().batch;
  for (const Column& column : batches[first].fields()) {
    const FieldSpec& spec = column.spec();
    const std::string_view by = cutting_field(settings, spec.name);
    const auto found = settings.find(spec.name);
    const bool is_moved = found != settings.end() && found->second.at == RowConvention::token;
    Column& to = out.add_field(allocate_column(out, spec, batches, cuts, by));
    std::byte* next = to.row(0);
    std::int64_t row = 0;
    for (const Cut& cut : cuts) {
      const Column& from = *batches[cut.batch].find(spec.name);
      const RowRange rows = rows_of(batches[cut.batch], from, cut, by);
      const std::size_t bytes = static_cast<std::size_t>(rows.size()) * from.row_bytes();
      if (bytes > 0) std::memcpy(next, from.row(rows.begin), bytes);
      if (!is_moved) clear_last_mask_value(batches[cut.batch], cut, spec, {next, bytes});
      next += bytes;
      if (by == spec.name && !is_whole(batches[cut.batch], cut)) {
        rebase_ranges(cut.tokens,
                      to.values<std::int64_t>().subspan(static_cast<std::size_t>(2 * row),
                                                        static_cast<std::size_t>(2 * rows.size())));
      }
      row += rows.size();
    }
  }
  return out;
}

}  // namespace evenkeel
