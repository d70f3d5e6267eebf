#include "evenkeel/service/step_results.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

std::int64_t rows_in(std::span<const std::byte> values, std::size_t row_bytes, const std::string& where) {
  const std::size_t stray = row_bytes == 0 ? values.size() : values.size() % row_bytes;
  if (stray == 0) return row_bytes == 0 ? 0 : static_cast<std::int64_t>(values.size() / row_bytes);
  throw InputError(where, "has " + format_plain_count(std::ssize(values), "byte") +
                              ", which is not a multiple of the row size of " +
                              format_plain_count(static_cast<std::int64_t>(row_bytes), "byte"));
}

std::string name_of_result(std::size_t m, const FieldSpec& spec) {
  return "result '" + spec.name + "' of micro-batch " + std::to_string(m);
}

Column fill_column(Column column, std::span<const std::byte> values) {
  std::ranges::copy(values, column.bytes().begin());
  return column;
}

}  // namespace

void StepResults::put(std::size_t m, FieldSpec spec, std::span<const std::byte> values) {
  const std::optional<ErrorReport> error = try_locally([&] {
    std::vector<Column>& fields = fields_for(m, spec);
    const std::string where = name_of_result(m, spec);
    if (is_counted(spec.kind)) {
      throw InputError(where,
                       "is of kind " + std::string(name_of(spec.kind)) +
                           ", for which each sample has its own number of rows",
                       "Pass the number of rows of every sample, too");
    }
    const std::int64_t rows = rows_in(values, spec.row_bytes(), where);
    fields.push_back(fill_column(Column::uninitialized(std::move(spec), rows), values));
  });
  if (!error_) error_ = error;
}

void StepResults::put(std::size_t m, FieldSpec spec, std::span<const std::int64_t> counts,
                      std::span<const std::byte> values) {
  const std::optional<ErrorReport> error = try_locally([&] {
    std::vector<Column>& fields = fields_for(m, spec);
    const std::string where = name_of_result(m, spec);
    if (!is_counted(spec.kind)) {
      throw InputError(where,
                       "is of kind " + std::string(name_of(spec.kind)) +
                           ", for which samples do not have their own numbers of rows",
                       "Pass it without numbers of rows");
    }
    SampleRows samples = SampleRows::from_counts(counts);
    const std::int64_t rows = rows_in(values, spec.row_bytes(), where);
    if (spec.row_bytes() > 0 && rows != samples.rows()) {
      throw InputError(where, "has " + format_plain_count(rows, "row") + ", but its samples have " +
                                  std::to_string(samples.rows()) + " in total");
    }
    fields.push_back(fill_column(Column::uninitialized(std::move(spec), std::move(samples)), values));
  });
  if (!error_) error_ = error;
}

void StepResults::fail(const ErrorReport& report) noexcept {
  if (!failure_) failure_ = try_locally([&] { throw_error(report); });
}

// Returns the columns of a micro-batch. Throws InputError if the micro-batch does not exist or already has
// this result.
std::vector<Column>& StepResults::fields_for(std::size_t m, const FieldSpec& spec) {
  if (m >= micro_batches_.size()) {
    throw InputError(name_of_result(m, spec),
                     "is of a micro-batch that does not exist: the step has " +
                         format_plain_count(std::ssize(micro_batches_), "micro-batch", "micro-batches"));
  }
  std::vector<Column>& fields = micro_batches_[m].fields;
  if (std::ranges::any_of(fields, [&](const Column& c) { return c.spec().name == spec.name; }))
    throw InputError(name_of_result(m, spec), "was added twice", "Add each result only once per micro-batch");
  return fields;
}

}  // namespace evenkeel
