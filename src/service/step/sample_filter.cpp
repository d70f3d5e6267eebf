#include "service/step/sample_filter.hpp"

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/loss_weights.hpp"
#include "plan/schedule/sample_summary.hpp"

namespace evenkeel {
namespace {

void require_length(const SampleShape& sample, std::int64_t longest) {
  if (sample.length() <= longest) return;
  throw InputError(
      sample.id,
      "has " + number_of(sample.length(), "token") + "; batch.max_length is " + std::to_string(longest),
      "Raise it, or set batch.too_long to drop, truncate or split");
}

/// A column of the same field for the samples at these positions.
Column picked(const RaggedBatch& from, const Column& column, std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> counts;
  std::int64_t rows = 0;
  for (const std::int64_t position : positions) {
    counts.push_back(from.rows_of(column, position).size());
    rows += counts.back();
  }
  Column to = is_counted(column.spec().kind) ? Column::unwritten(column.spec(), SampleRows::of_counts(counts))
                                             : Column::unwritten(column.spec(), rows);
  std::byte* next = to.row(0);
  for (const std::int64_t position : positions) {
    const RowRange range = from.rows_of(column, position);
    const std::size_t bytes = static_cast<std::size_t>(range.size()) * column.row_bytes();
    if (bytes > 0) std::memcpy(next, column.row(range.begin), bytes);
    next += bytes;
  }
  return to;
}

RaggedBatch picked(const RaggedBatch& from, std::span<const std::int64_t> positions) {
  std::vector<SampleShape> shapes;
  std::vector<std::uint64_t> contexts;
  for (const std::int64_t position : positions) {
    const auto at = static_cast<std::size_t>(position);
    shapes.push_back(from.samples()[at]);
    if (!from.contexts().empty()) contexts.push_back(from.contexts()[at]);
  }
  RaggedBatch batch(std::move(shapes));
  batch.set_contexts(std::move(contexts));
  for (const Column& column : from.fields()) batch.add_field(picked(from, column, positions));
  return batch;
}

/// The positions of samples in which a token carries loss.
std::vector<std::int64_t> with_loss(const RaggedBatch& batch, bool shared) {
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

/// The first sample that is not at one of these positions, which leave one out.
const SampleShape& first_other(const RaggedBatch& batch, std::span<const std::int64_t> positions) {
  std::size_t i = 0;
  while (i < positions.size() && positions[i] == static_cast<std::int64_t>(i)) ++i;
  return batch.samples()[i];
}

}  // namespace

std::int64_t apply_filter(const FilterSettings& filter, bool shared, RaggedBatch& batch) {
  if (filter.too_long == TooLong::error && filter.max_length) {
    for (const SampleShape& sample : batch.samples()) require_length(sample, *filter.max_length);
  }
  if (filter.without_loss == WithoutLoss::keep) return 0;
  const std::vector<std::int64_t> positions = with_loss(batch, shared);
  const std::int64_t left_out = batch.size() - std::ssize(positions);
  if (left_out == 0) return 0;
  if (filter.without_loss == WithoutLoss::error) {
    throw InputError(
        first_other(batch, positions).id, "has no token that carries loss, and batch.without_loss is error",
        "Check its loss mask and batch.max_length, or set batch.without_loss: drop to leave such "
        "samples out");
  }
  batch = picked(batch, positions);
  return left_out;
}

}  // namespace evenkeel
