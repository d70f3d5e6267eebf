#include "service/step/sample_checks.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "pack/sample_fields.hpp"
#include "plan/loss_weights.hpp"
#include "plan/schedule/row_conventions.hpp"
#include "plan/schedule/sample_summary.hpp"

namespace evenkeel {
namespace {

bool reads_dumps(const Config& config) {
  const auto is_dump = [](const SourceSettings& source) { return source.kind == SourceKind::dump; };
  if (config.sources.empty()) return is_dump(config.source);
  return std::ranges::all_of(config.sources, [&](const auto& named) { return is_dump(named.second); });
}

std::string name_of(const FieldSpec& spec) {
  return "field '" + spec.name + "'";
}

std::string name_of(const SampleShape& sample) {
  return "sample " + std::to_string(sample.id.value());
}

/// Maximum size of a row. With this limit and at most 2^31 - 1 rows, the size of a column fits in 64 bits.
constexpr std::size_t max_row_bytes = std::numeric_limits<std::int32_t>::max();

/// Throws InputError unless a field of kind text or bytes has single uint8 elements and, for text, every
/// sample's value is valid UTF-8.
void require_valid_bytes(const RaggedBatch& batch, const Column& column) {
  const FieldSpec& spec = column.spec();
  const std::string kind(name_of(spec.kind));
  if (spec.dtype != DType::uint8 || !spec.trailing.empty()) {
    throw InputError(name_of(spec),
                     "is " + description_of(spec) + "; " + kind + " fields have single uint8 values");
  }
  if (!spec.rule().is_text()) return;
  for (std::int64_t i = 0; i < column.samples().size() && i < batch.size(); ++i) {
    const RowRange rows = column.samples()[i];
    const std::string_view text(reinterpret_cast<const char*>(column.row(rows.begin)),
                                static_cast<std::size_t>(rows.size()));
    const std::size_t valid = utf8_prefix_length(text);
    if (valid == text.size()) continue;
    throw InputError(batch.samples()[static_cast<std::size_t>(i)].id,
                     "its text of " + name_of(spec) + " is not valid UTF-8 at byte " + std::to_string(valid),
                     "Provide UTF-8, or a field of kind bytes");
  }
}

void require_valid_field(const RaggedBatch& batch, const Column& column) {
  const FieldSpec& spec = column.spec();
  require_usable_name(spec);
  require_usable_form(spec);
  if (column.row_bytes() > max_row_bytes) {
    throw LimitError(name_of(spec),
                     "is " + description_of(spec) + ", each of " + std::to_string(column.row_bytes()) +
                         " bytes; a row has at most " + std::to_string(max_row_bytes),
                     "Use smaller rows");
  }
  if (!spec.rule().has_numbers()) require_valid_bytes(batch, column);
  batch.require_rows_of_samples(column);
}

/// Throws InputError unless the column, which the trainer may have added to the micro-batch, has the right
/// number of rows.
void require_row_count(const Column& column, const PackedMicroBatch& micro_batch,
                       const std::string& of_micro_batch) {
  const FieldSpec& spec = column.spec();
  const std::string kind(name_of(spec.kind));
  if (is_counted(spec.kind)) {
    const std::int64_t samples = std::ssize(micro_batch.samples);
    if (column.samples().size() == samples) return;
    throw InputError(name_of(spec) + of_micro_batch,
                     "has " + kind + " for " + format_plain_count(column.samples().size(), "sample") +
                         ", but the micro-batch has " + std::to_string(samples));
  }
  const std::int64_t rows = micro_batch.rows_of(spec.kind);
  if (column.rows() == rows) return;
  throw InputError(name_of(spec) + of_micro_batch, "has " + format_plain_count(column.rows(), "row") +
                                                       "; a field of kind " + kind + " needs " +
                                                       std::to_string(rows));
}

void require_valid_fields(const RaggedBatch& batch) {
  std::vector<FieldSpec> fields;
  for (const Column& column : batch.fields()) {
    require_valid_field(batch, column);
    fields.push_back(column.spec());
  }
  require_different_names(fields);
}

void require_valid_ids(const RaggedBatch& batch) {
  const auto wrong = std::ranges::find_if(batch.samples(),
                                          [](const SampleShape& sample) { return sample.id < SampleId{0}; });
  if (wrong == batch.samples().end()) return;
  throw InputError(wrong->id, "has a negative id", "Use ids of at least 0");
}

void require_valid_tokens(const RaggedBatch& batch) {
  const std::span<const std::int64_t> values = batch.at(input_ids_field).values<std::int64_t>();
  const auto negative = std::ranges::find_if(values, [](std::int64_t token) { return token < 0; });
  if (negative == values.end()) return;
  const std::int64_t row = negative - values.begin();
  const auto after = std::ranges::upper_bound(batch.token_offsets(), row);
  const auto sample = static_cast<std::size_t>(after - batch.token_offsets().begin() - 1);
  throw InputError(batch.samples()[sample].id, "token " + std::to_string(*negative) + " is negative",
                   "Use token ids of at least 0");
}

std::string describe_lengths(const SampleShape& sample) {
  return "a prompt of " + format_plain_count(sample.prompt, "token") + " and a response of " +
         format_plain_count(sample.response, "token");
}

/// Throws InputError unless `added` matches `brought`, the original sample at the same position.
void require_same_sample(const SampleShape& brought, const SampleShape& added) {
  if (added.id != brought.id) {
    throw InputError("added fields", "have " + name_of(added) + " where " + name_of(brought) + " was passed",
                     "Pass the same samples in the same order");
  }
  if (added.length() != brought.length() || added.prompt != brought.prompt) {
    throw InputError("added fields",
                     "have " + describe_lengths(added) + " for " + name_of(brought) +
                         ", which was passed with " + describe_lengths(brought),
                     "Pass the lengths of the samples unchanged");
  }
  if (added.group != brought.group) {
    const std::string sample = name_of(brought);
    std::string what = "name a different group for " + sample + " than the one it was passed with";
    if (is_single_sample_group(added.group))
      what = "do not name a group for " + sample + ", which was passed with one";
    else if (is_single_sample_group(brought.group))
      what = "name a group for " + sample + ", which was passed without one";
    throw InputError("added fields", what, "Pass the groups of the samples unchanged");
  }
}

void require_max_length(const SampleShape& sample, std::int64_t longest) {
  if (sample.length() <= longest) return;
  throw InputError(sample.id,
                   "has " + format_plain_count(sample.length(), "token") + "; batch.max_length is " +
                       std::to_string(longest),
                   "Raise it, or pass shorter samples");
}

/// Returns the part of a column that belongs to the samples at these positions.
Column pick_rows(const RaggedBatch& from, const Column& column, std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> counts;
  std::int64_t rows = 0;
  for (const std::int64_t position : positions) {
    counts.push_back(from.rows_of(column, position).size());
    rows += counts.back();
  }
  Column to = is_counted(column.spec().kind)
                  ? Column::uninitialized(column.spec(), SampleRows::from_counts(counts))
                  : Column::uninitialized(column.spec(), rows);
  std::byte* next = to.row(0);
  for (const std::int64_t position : positions) {
    const RowRange range = from.rows_of(column, position);
    const std::size_t bytes = static_cast<std::size_t>(range.size()) * column.row_bytes();
    if (bytes > 0) std::memcpy(next, column.row(range.begin), bytes);
    next += bytes;
  }
  return to;
}

RaggedBatch pick_samples(const RaggedBatch& from, std::span<const std::int64_t> positions) {
  std::vector<SampleShape> shapes;
  std::vector<std::uint64_t> contexts;
  for (const std::int64_t position : positions) {
    const auto at = static_cast<std::size_t>(position);
    shapes.push_back(from.samples()[at]);
    if (!from.contexts().empty()) contexts.push_back(from.contexts()[at]);
  }
  RaggedBatch batch(std::move(shapes));
  batch.set_contexts(std::move(contexts));
  for (const Column& column : from.fields()) batch.add_field(pick_rows(from, column, positions));
  return batch;
}

/// Returns the positions of samples with at least one token that carries loss.
std::vector<std::int64_t> positions_with_loss(const RaggedBatch& batch, bool shared) {
  const std::vector<SampleSummary> summaries = shared ? summaries_for_sharing(batch) : summaries_of(batch);
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const SampleSummary& summary = summaries[i];
    const std::int64_t tokens =
        summary.loss_tokens < 0 ? response_loss_tokens(summary.shape) : summary.loss_tokens;
    if (tokens > 0) positions.push_back(static_cast<std::int64_t>(i));
  }
  return positions;
}

/// Returns the first sample whose position is not in `positions`. Precondition: `positions` is in ascending
/// order and omits at least one sample.
const SampleShape& first_omitted_sample(const RaggedBatch& batch, std::span<const std::int64_t> positions) {
  std::size_t i = 0;
  while (i < positions.size() && positions[i] == static_cast<std::int64_t>(i)) ++i;
  return batch.samples()[i];
}

}  // namespace

void require_valid_samples(const RaggedBatch& batch) {
  if (batch.size() == 0) return;
  (void)batch.at(input_ids_field);
  require_valid_fields(batch);
  require_valid_ids(batch);
  require_valid_tokens(batch);
}

NamedFields fields_as_read(const Config& config, const RaggedBatch& batch) {
  return reads_dumps(config) ? field_settings_for_dump(config.fields, batch) : config.fields;
}

void prepare_samples(RaggedBatch& batch, const NamedFields& fields, bool shared) {
  require_valid_samples(batch);
  normalize_rows_and_masks(batch, fields, shared);
}

void require_addable(const LengthTable& table, const NamedFields& fields, WorldRank rank, std::int64_t owned,
                     const RaggedBatch& added) {
  if (added.fields().empty()) return;
  for (const std::string_view name : {input_ids_field, loss_mask_field, response_mask_field}) {
    if (added.find(name) == nullptr) continue;
    throw InputError("field '" + std::string(name) + "'",
                     "cannot be added later, because the plan of the step depends on it",
                     "Provide it with the samples");
  }
  require_valid_fields(added);
  require_rows_in_place(added, fields);
  if (added.size() != owned) {
    throw InputError("added fields",
                     "cover " + format_plain_count(added.size(), "sample") + ", but this rank provided " +
                         std::to_string(owned),
                     "Add the fields of all samples that this rank provided");
  }
  for (const LengthEntry& entry : table.entries()) {
    if (entry.owner == rank)
      require_same_sample(entry.shape, added.samples()[static_cast<std::size_t>(entry.owner_index)]);
  }
}

void require_reusable_micro_batches(std::span<const PackedMicroBatch> micro_batches,
                                    std::span<const CarriedField> brought, PipelineStage stage) {
  for (const std::size_t f : fields_for_stage(brought, stage)) {
    const Column* const column =
        micro_batches.empty() ? nullptr : micro_batches.front().find(brought[f].name());
    if (column != nullptr) continue;
    throw InputError("field '" + brought[f].name() + "'", "is no longer in the step's micro-batches",
                     "Do not remove the samples' fields from a step before its last pass");
  }
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    const PackedMicroBatch& micro_batch = micro_batches[m];
    const std::string of_micro_batch = " of micro-batch " + std::to_string(m);
    std::set<std::string_view> names;
    for (const Column& column : micro_batch.fields) {
      const FieldSpec& spec = column.spec();
      const Column* const first = micro_batches.front().find(spec.name);
      if (first == nullptr || first->spec() != spec || !names.insert(spec.name).second) {
        throw InputError(
            name_of(spec) + of_micro_batch,
            first == nullptr        ? "is missing in micro-batch 0"
            : first->spec() != spec ? "has another dtype, kind or shape than in micro-batch 0"
                                    : "appears twice",
            first == nullptr || first->spec() != spec
                ? "If you add a field, add it to every micro-batch, with the same dtype, kind and shape"
                : "Add each field only once per micro-batch");
      }
      require_row_count(column, micro_batch, of_micro_batch);
    }
    for (const Column& column : micro_batches.front().fields) {
      if (micro_batch.find(column.spec().name) != nullptr) continue;
      throw InputError(name_of(column.spec()) + of_micro_batch, "is missing, but micro-batch 0 has it",
                       "If you add a field, add it to every micro-batch; do not remove fields before the "
                       "step's last pass");
    }
  }
}

std::int64_t apply_filter(const FilterSettings& filter, bool shared, RaggedBatch& batch) {
  if (filter.too_long == TooLong::error && filter.max_length) {
    for (const SampleShape& sample : batch.samples()) require_max_length(sample, *filter.max_length);
  }
  if (filter.without_loss == WithoutLoss::keep) return 0;
  const std::vector<std::int64_t> positions = positions_with_loss(batch, shared);
  const std::int64_t left_out = batch.size() - std::ssize(positions);
  if (left_out == 0) return 0;
  if (filter.without_loss == WithoutLoss::error) {
    throw InputError(first_omitted_sample(batch, positions).id,
                     "has no token that carries loss, but batch.without_loss is error",
                     "Check its response, its loss mask and labels if it has any, and batch.max_length, or "
                     "set batch.without_loss: drop to leave such samples out");
  }
  batch = pick_samples(batch, positions);
  return left_out;
}

}  // namespace evenkeel
