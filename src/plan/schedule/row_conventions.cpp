#include "plan/schedule/row_conventions.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "batch/mask.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "pack/sample_fields.hpp"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 3> convention_words{"token", "next", "response"};

bool is_label_or_mask_field(std::string_view name) {
  return name == labels_field || name == loss_mask_field || name == response_mask_field;
}

std::optional<RowConvention> convention_of(const NamedFields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : found->second.at;
}

/// Returns a copy of the column with this name and kind.
Column copy_column_as(const Column& column, std::string_view name, FieldKind kind) {
  FieldSpec spec = column.spec();
  spec.name = name;
  spec.kind = kind;
  Column made = Column::uninitialized(std::move(spec), column.rows());
  std::ranges::copy(column.bytes(), made.bytes().begin());
  return made;
}

void require_valid_convention(const FieldSpec& spec, std::optional<RowConvention> at) {
  const std::string where = "field '" + spec.name + "'";
  if (!at) {
    if (!is_label_or_mask_field(spec.name) || !spec.rule().is_per_token()) return;
    throw InputError(
        where,
        "has one value per token, but it is not configured whether a token's value is at the "
        "token or at the row that predicts it",
        "Set fields." + spec.name +
            ".at: token (as in Hugging Face) or next (shifted, as in Megatron-LM); or provide one "
            "value per response token, and set response if no sample has a prompt");
  }
  const FieldKind needed = at == RowConvention::response ? FieldKind::response_token : FieldKind::token;
  if (spec.kind == needed) return;
  throw InputError(where,
                   "is of kind " + std::string(name_of(spec.kind)) + ", but fields." + spec.name +
                       ".at: " + std::string(name_of(*at)) + " needs kind " + std::string(name_of(needed)),
                   "Provide it in that form, or change or remove fields." + spec.name + ".at");
}

/// Returns the row, in a field with one row per token, that predicts the sample's response token `index`; -1
/// if there is no such row.
std::int64_t predicting_row(const SampleShape& sample, std::int64_t index) {
  return sample.prompt + index - 1;
}

void move_to_predicting_rows(const RaggedBatch& batch, Column& column) {
  const std::size_t bytes = column.row_bytes();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    if (rows.empty() || bytes == 0) continue;
    std::byte* const first = column.row(rows.begin);
    std::byte* const last = column.row(rows.end - 1);
    std::memmove(first, first + bytes, static_cast<std::size_t>(rows.size() - 1) * bytes);
    std::memset(last, 0, bytes);
    if (column.spec().name == labels_field) std::memcpy(last, &ignored_label, bytes);
  }
}

/// Returns a column with one row per response token. `from` has one row per token, and its values are already
/// at the predicting rows.
Column select_response_rows(const RaggedBatch& batch, const Column& from) {
  FieldSpec spec = from.spec();
  spec.kind = FieldKind::response_token;
  Column column(std::move(spec), batch.rows_of(FieldKind::response_token));
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const std::int64_t first = batch.rows_of(FieldKind::token, i).begin;
    const RowRange rows = batch.rows_of(FieldKind::response_token, i);
    for (std::int64_t r = 0; r < rows.size(); ++r) {
      const std::int64_t row = predicting_row(sample, r);
      if (row >= 0 && from.row_bytes() > 0)
        std::memcpy(column.row(rows.begin + r), from.row(first + row), from.row_bytes());
    }
  }
  return column;
}

/// Changes the kind of a column from token to response_token if no sample has a prompt. In that case, the two
/// kinds look the same in files.
void infer_response_kind(const RaggedBatch& batch, Column& column) {
  const bool has_prompts = batch.rows_of(FieldKind::response_token) != batch.rows_of(FieldKind::token);
  if (!column.spec().rule().is_per_token() || has_prompts) return;
  column = copy_column_as(column, column.spec().name, FieldKind::response_token);
}

/// Returns the row of a column of this kind, token or response_token, that holds the value at row
/// `predicting` of sample i, which predicts the next token. Returns nullopt if the column does not have such
/// a row.
std::optional<std::int64_t> row_at(const RaggedBatch& batch, FieldKind kind, std::int64_t i,
                                   std::int64_t predicting) {
  const RowRange rows = batch.rows_of(kind, i);
  const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
  const std::int64_t row = rule_of(kind).is_per_token() ? predicting : predicting + 1 - sample.prompt;
  return 0 <= row && row < rows.size() ? std::optional(rows.begin + row) : std::nullopt;
}

/// Adds a loss mask that is 1 where the label is a response token.
void add_response_mask(RaggedBatch& batch, FieldKind kind) {
  Column& mask = batch.add_field({std::string(loss_mask_field), DType::float32, kind, {}});
  const std::span<float> values = mask.values<float>();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    for (std::int64_t r = 0; r < sample.response; ++r) {
      if (const auto row = row_at(batch, kind, i, predicting_row(sample, r)))
        values[static_cast<std::size_t>(*row)] = 1.0F;
    }
  }
}

void rename_loss_mask(RaggedBatch& batch) {
  Column* const mask = find_loss_mask(batch);
  if (mask == nullptr || mask->spec().name == loss_mask_field) return;
  *mask = copy_column_as(*mask, loss_mask_field, mask->spec().kind);
  require_usable_form(mask->spec());
}

void require_no_loss_of_last_rows(const RaggedBatch& batch, const Column& mask) {
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    if (rows.empty() || count_set(mask, {rows.end - 1, rows.end}) == 0) continue;
    throw InputError(batch.samples()[static_cast<std::size_t>(i)].id,
                     "its loss_mask is set at the last row, " + std::to_string(rows.size() - 1) +
                         ", which does not predict a token",
                     "If the mask has the value of each token at the token itself, set at: token in "
                     "fields.loss_mask (or fields.response_mask, if that is its name); otherwise set it to "
                     "0 in the last row");
  }
}

/// Clears the loss mask where the label is ignored_label; adds a mask first if there are only labels.
/// O(labels).
void mask_ignored_labels(RaggedBatch& batch) {
  if (batch.find(labels_field) == nullptr) return;
  const FieldKind of_labels = batch.at(labels_field).spec().kind;
  if (batch.find(loss_mask_field) == nullptr) add_response_mask(batch, of_labels);
  const std::span<const std::int64_t> labels = batch.at(labels_field).values<std::int64_t>();
  Column& mask = *batch.find(loss_mask_field);
  const FieldKind of_mask = mask.spec().kind;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::int64_t length = batch.samples()[static_cast<std::size_t>(i)].length();
    for (std::int64_t predicting = -1; predicting < length; ++predicting) {
      const auto label = row_at(batch, of_labels, i, predicting);
      if (!label || labels[static_cast<std::size_t>(*label)] != ignored_label) continue;
      if (const auto row = row_at(batch, of_mask, i, predicting))
        std::memset(mask.row(*row), 0, mask.row_bytes());
    }
  }
}

}  // namespace

std::string_view name_of(RowConvention at) noexcept {
  return convention_words[static_cast<std::size_t>(at)];
}

RowConvention row_convention_of(std::string_view word) {
  const auto* const found = std::ranges::find(convention_words, word);
  if (found != convention_words.end()) return static_cast<RowConvention>(found - convention_words.begin());
  throw InputError("at", "is '" + std::string(word) + "'; it must be token, next or response");
}

Column* find_loss_mask(RaggedBatch& batch) {
  Column* const mask = batch.find(loss_mask_field);
  Column* const other = batch.find(response_mask_field);
  if (other == nullptr || !other->spec().rule().is_cut()) return mask;
  if (mask == nullptr) return other;
  throw InputError("field 'response_mask'",
                   "cannot be combined with 'loss_mask', since both specify which tokens carry loss",
                   "Leave one out");
}

NamedFields field_settings_for_dump(NamedFields fields, const RaggedBatch& batch) {
  for (const Column& column : batch.fields()) {
    const FieldSpec& spec = column.spec();
    if (!is_label_or_mask_field(spec.name) && !convention_of(fields, spec.name)) continue;
    std::optional<RowConvention>& at = fields[spec.name].at;
    at.reset();
    if (spec.rule().is_per_token()) at = RowConvention::next;
  }
  return fields;
}

void apply_row_conventions(RaggedBatch& batch, const NamedFields& fields, bool shared) {
  for (Column& column : batch.fields()) {
    const std::string name = column.spec().name;
    const std::optional<RowConvention> at = convention_of(fields, name);
    if (at == RowConvention::response) infer_response_kind(batch, column);
    require_valid_convention(column.spec(), at);
    if (at == RowConvention::token) move_to_predicting_rows(batch, column);
    if (shared && at && at != RowConvention::response && !is_label_or_mask_field(name))
      column = select_response_rows(batch, column);
  }
}

void require_rows_in_place(const RaggedBatch& batch, const NamedFields& fields) {
  for (const Column& column : batch.fields()) {
    const std::optional<RowConvention> at = convention_of(fields, column.spec().name);
    require_valid_convention(column.spec(), at);
    if (at != RowConvention::token) continue;
    throw InputError("field '" + column.spec().name + "'",
                     "is configured with at: token, which only applies to fields of samples",
                     "Provide it with the samples, or add one value per response token under another name");
  }
}

void normalize_rows_and_masks(RaggedBatch& batch, const NamedFields& fields, bool shared) {
  apply_row_conventions(batch, fields, shared);
  rename_loss_mask(batch);
  const Column* const mask = std::as_const(batch).find(loss_mask_field);
  if (mask != nullptr && mask->spec().rule().is_per_token()) {
    if (shared) require_loss_only_on_responses(batch, *mask);
    const Column* const labels = std::as_const(batch).find(labels_field);
    const bool has_last_labels = labels != nullptr && labels->spec().rule().is_per_token();
    if (shared || !has_last_labels) require_no_loss_of_last_rows(batch, *mask);
  }
  mask_ignored_labels(batch);
}

}  // namespace evenkeel
