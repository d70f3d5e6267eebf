#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "c/failures.hpp"
#include "c/mpi/fields.hpp"
#include "c/mpi/handles.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {

RaggedBatch make_borrowing_batch(const evenkeel_samples& samples) {
  if (samples.first_error) throw_error(*samples.first_error);
  RaggedBatch& batch = samples.batch;
  RaggedBatch same({batch.samples().begin(), batch.samples().end()});
  for (Column& column : batch.fields()) same.add_field(column.make_borrowing_copy());
  return same;
}

namespace {

Column copy_field(CheckedField field, std::int64_t rows, const RaggedBatch& batch) {
  const FieldKind kind = field.spec.kind;
  if (!field.samples && rows != batch.rows_of(kind)) {
    throw InputError("field '" + field.spec.name + "'",
                     "has " + format_plain_count(rows, "row") + "; a field of kind " +
                         std::string(name_of(kind)) + " has " + std::to_string(batch.rows_of(kind)) +
                         " over all samples");
  }
  Column column = field.samples ? Column::uninitialized(std::move(field.spec), *std::move(field.samples))
                                : Column::uninitialized(std::move(field.spec), rows);
  std::ranges::copy(field.bytes, column.bytes().begin());
  return column;
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_samples_create(int64_t count, const int64_t* ids, const uint64_t* groups,
                                        const int64_t* prompt_lengths, const int64_t* response_lengths,
                                        evenkeel_samples** samples) {
  return create_handle(samples, "samples", [&] {
    require_list(ids, count, "ids");
    require_list(prompt_lengths, count, "prompt_lengths");
    require_list(response_lengths, count, "response_lengths");
    std::vector<SampleShape> shapes;
    shapes.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t group = groups == nullptr ? own_group(ids[i]) : groups[i];
      shapes.push_back({SampleId{ids[i]}, group, prompt_lengths[i], response_lengths[i]});
    }
    return new evenkeel_samples{RaggedBatch(std::move(shapes)), std::nullopt};
  });
}

evenkeel_status evenkeel_samples_add(evenkeel_samples* samples, const evenkeel_field* field) {
  return run_guarded([&] {
    require(samples, "samples");
    try {
      CheckedField made = check_field(field);
      samples->batch.add_field(copy_field(std::move(made), field->rows, samples->batch));
    } catch (...) {
      if (!samples->first_error) samples->first_error = current_exception_report();
      throw;
    }
  });
}

evenkeel_status evenkeel_samples_fail(evenkeel_samples* samples, evenkeel_status status) {
  return run_guarded([&] {
    require(samples, "samples");
    ErrorReport report = report_of_status(status);
    if (!samples->first_error) samples->first_error = std::move(report);
  });
}

int64_t evenkeel_samples_count(const evenkeel_samples* samples) {
  return samples == nullptr ? 0 : samples->batch.size();
}

int64_t evenkeel_samples_num_fields(const evenkeel_samples* samples) {
  return samples == nullptr ? 0 : std::ssize(std::as_const(samples->batch).fields());
}

evenkeel_status evenkeel_samples_get(const evenkeel_samples* samples, evenkeel_sample* all) {
  return run_guarded([&] {
    require(samples, "samples");
    require_list(all, samples->batch.size(), "all");
    std::ranges::transform(samples->batch.samples(), all,
                           [](const SampleShape& each) { return view_of(each); });
  });
}

evenkeel_status evenkeel_samples_field(const evenkeel_samples* samples, int64_t index,
                                       evenkeel_field* field) {
  return run_guarded([&] {
    require(field, "field");
    require(samples, "samples");
    *field = field_at(std::as_const(samples->batch).fields(), index);
  });
}

evenkeel_status evenkeel_samples_find_field(const evenkeel_samples* samples, const char* name,
                                            evenkeel_field* field) {
  return run_guarded([&] {
    require(field, "field");
    require(samples, "samples");
    *field = find_field_by_name(std::as_const(samples->batch).fields(), name, "batch of samples");
  });
}

void evenkeel_samples_destroy(evenkeel_samples* samples) {
  delete samples;
}

uint64_t evenkeel_group_of_uid(const char* text, int64_t number) {
  return text == nullptr ? group_of_uid(number) : group_of_uid(std::string_view(text));
}
