#include "evenkeel/batch/ragged_batch.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

void require_valid_lengths(const SampleShape& sample) {
  if (sample.prompt >= 0 && sample.response >= 0) return;
  throw InputError(sample.id, "prompt and response lengths are " + std::to_string(sample.prompt) + " and " +
                                  std::to_string(sample.response) + "; a length cannot be negative");
}

// Throws InputError if the batch would have 2^63 tokens or more. Precondition: lengths are not negative.
void require_countable_tokens(const SampleShape& sample, std::int64_t tokens_before) {
  EVENKEEL_PRECONDITION(cheap, sample.prompt >= 0 && sample.response >= 0, sample.prompt, sample.response);
  const std::int64_t room = std::numeric_limits<std::int64_t>::max() - tokens_before;
  if (sample.prompt <= room && sample.response <= room - sample.prompt) return;
  throw InputError(sample.id, "prompt and response lengths are " + std::to_string(sample.prompt) + " and " +
                                  std::to_string(sample.response) + "; together with the " +
                                  format_plain_count(tokens_before, "token") +
                                  " of the samples before it, the batch has 2^63 tokens or more");
}

/// Returns the first row of sample `index`; for `index` = size(), the number of rows.
std::int64_t first_row(const RaggedBatch& batch, FieldKind kind, std::int64_t index) noexcept {
  EVENKEEL_PRECONDITION(cheap, !is_counted(kind), name_of(kind));
  switch (rule_of(kind).rows_per) {
    case RowsPer::token:
      return batch.token_offsets()[static_cast<std::size_t>(index)];
    case RowsPer::response_token:
      return batch.response_offsets()[static_cast<std::size_t>(index)];
    case RowsPer::sample:
      return index;
    case RowsPer::own_count:
      break;
  }
  return 0;
}

constexpr std::uint64_t below_own_groups = first_own_group - 1;

}  // namespace

RaggedBatch::RaggedBatch(std::vector<SampleShape> samples) : samples_(std::move(samples)) {
  token_offsets_.reserve(samples_.size() + 1);
  response_offsets_.reserve(samples_.size() + 1);
  token_offsets_.push_back(0);
  response_offsets_.push_back(0);
  for (const SampleShape& sample : samples_) {
    require_valid_lengths(sample);
    require_countable_tokens(sample, token_offsets_.back());
    token_offsets_.push_back(token_offsets_.back() + sample.length());
    response_offsets_.push_back(response_offsets_.back() + sample.response);
  }
}

std::int64_t RaggedBatch::rows_of(FieldKind kind) const noexcept {
  return first_row(*this, kind, size());
}

RowRange RaggedBatch::rows_of(FieldKind kind, std::int64_t index) const noexcept {
  return {first_row(*this, kind, index), first_row(*this, kind, index + 1)};
}

void RaggedBatch::require_rows_of_samples(const Column& field) const {
  const FieldSpec& spec = field.spec();
  const std::string where = "field '" + spec.name + "'";
  const std::string kind(name_of(spec.kind));
  if (is_counted(spec.kind)) {
    if (field.samples().are_shared()) {
      throw InputError(where, "has rows that several samples share, which is allowed only in micro-batches",
                       "Give each sample its own rows");
    }
    if (field.samples().size() == size()) return;
    throw InputError(where,
                     "has " + kind + " for " + format_plain_count(field.samples().size(), "sample") +
                         ", but the batch has " + std::to_string(size()),
                     "Give one number of rows per sample of the batch, which may be 0");
  }
  if (field.rows() == rows_of(spec.kind)) return;
  throw InputError(where, "has " + format_plain_count(field.rows(), "row") + "; a " + kind +
                              " field of this batch needs " + std::to_string(rows_of(spec.kind)));
}

Column& RaggedBatch::add_field(FieldSpec spec) {
  const std::int64_t rows = is_counted(spec.kind) ? 0 : rows_of(spec.kind);
  return add_field(Column(std::move(spec), rows));
}

Column& RaggedBatch::add_field(Column column) {
  const FieldSpec& spec = column.spec();
  if (find(spec.name) != nullptr)
    throw InputError("field '" + spec.name + "'", "is already in the batch", "Use another name");
  require_rows_of_samples(column);
  return fields_.emplace_back(std::move(column));
}

const Column* RaggedBatch::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find_if(fields_, [&](const Column& c) { return c.spec().name == name; });
  return found == fields_.end() ? nullptr : &*found;
}

Column* RaggedBatch::find(std::string_view name) noexcept {
  return const_cast<Column*>(std::as_const(*this).find(name));
}

const Column& RaggedBatch::at(std::string_view name) const {
  if (const Column* column = find(name)) return *column;
  const std::string names = join(fields_, [](const Column& column) { return column.spec().name; });
  throw InputError("field '" + std::string(name) + "'",
                   names.empty() ? "is not in the batch, which has no fields"
                                 : "is not in the batch; its fields are: " + names);
}

std::uint64_t group_of_uid(std::string_view text) noexcept {
  return fnv1a_64(text) & below_own_groups;
}

std::uint64_t group_of_uid(std::int64_t number) noexcept {
  const auto bits = static_cast<std::uint64_t>(number);
  return number >= 0 ? bits : mix_64(bits) & below_own_groups;
}

// A number from first_own_group on is mixed twice. The negative int64 with the same bits is mixed only once,
// so the two uids get different groups.
std::uint64_t group_of_uid(std::uint64_t number) noexcept {
  return number < first_own_group ? number : mix_64(mix_64(number)) & below_own_groups;
}

std::uint64_t group_of(const Uid& uid, std::int64_t sample) noexcept {
  if (const auto* text = std::get_if<std::string>(&uid)) return group_of_uid(std::string_view(*text));
  if (const auto* number = std::get_if<std::int64_t>(&uid)) return group_of_uid(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&uid)) return group_of_uid(*number);
  return own_group(sample);
}

Uid uid_of_group(std::uint64_t group) {
  if (is_single_sample_group(group)) return std::monostate{};
  return static_cast<std::int64_t>(group);
}

}  // namespace evenkeel
