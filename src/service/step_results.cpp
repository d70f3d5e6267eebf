#include "evenkeel/service/step_results.hpp"

#include <algorithm>
#include <utility>

#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

std::int64_t rows_in(std::span<const std::byte> values, std::size_t row_bytes, const std::string& where) {
  const std::size_t stray = row_bytes == 0 ? values.size() : values.size() % row_bytes;
  if (stray == 0) return row_bytes == 0 ? 0 : static_cast<std::int64_t>(values.size() / row_bytes);
  throw InputError(where, "has " + std::to_string(values.size()) + " bytes, which are no whole rows of " +
                              std::to_string(row_bytes) + " bytes");
}

}  // namespace

void StepResults::put(std::size_t m, FieldSpec spec, std::span<const std::byte> values) {
  const std::optional<ErrorReport> error = try_locally([&] { add(m, std::move(spec), values); });
  if (!error_) error_ = error;
}

void StepResults::fail(const ErrorReport& report) noexcept {
  if (!failure_) failure_ = try_locally([&] { throw_error(report); });
}

void StepResults::add(std::size_t m, FieldSpec spec, std::span<const std::byte> values) {
  const std::string where = "result '" + spec.name + "' of micro-batch " + std::to_string(m);
  if (m >= micro_batches_.size()) {
    throw InputError(where, "the results are of " + std::to_string(micro_batches_.size()) + " micro-batches");
  }
  std::vector<Column>& fields = micro_batches_[m].fields;
  if (std::ranges::any_of(fields, [&](const Column& c) { return c.spec().name == spec.name; }))
    throw InputError(where, "was put twice", "Put each result once a micro-batch");
  const std::int64_t rows = rows_in(values, spec.row_bytes(), where);
  Column column = Column::unwritten(std::move(spec), rows);
  std::ranges::copy(values, column.bytes().begin());
  fields.push_back(std::move(column));
}

}  // namespace evenkeel
