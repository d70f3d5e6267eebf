#include "buffer/intake/sample_bodies.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/safetensors/tensor_file.hpp"
#include "io/samples/sample_tensors.hpp"

namespace evenkeel {
namespace {

constexpr const char* answer_name = "samples of a step";
constexpr std::size_t size_bytes = 8;
constexpr const char* same_version_hint = "Run the job and the buffer with the same version of Evenkeel";

[[noreturn]] void reject_number(std::int64_t come, std::size_t wanted) {
  throw InputError(answer_name,
                   "do not match the request: the number received is " + std::to_string(come) + ", but " +
                       std::to_string(wanted) + " were requested",
                   same_version_hint);
}

RaggedBatch parse_line_samples(const JsonlSchema& schema, const DeclaredFormats& declared,
                               std::string_view bodies, std::span<const std::int64_t> arrivals) {
  std::vector<LineRef> lines;
  lines.reserve(arrivals.size());
  std::size_t begin = 0;
  while (begin < bodies.size()) {
    const std::size_t end = std::min(bodies.find('\n', begin), bodies.size());
    if (lines.size() == arrivals.size()) reject_number(std::ssize(lines) + 1, arrivals.size());
    lines.push_back(
        {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin), arrivals[lines.size()]});
    begin = end + 1;
  }
  if (lines.size() != arrivals.size()) reject_number(std::ssize(lines), arrivals.size());
  const InputFile file(answer_name, bodies);
  return read_samples(file, lines, schema, declared);
}

/// A body of tensors, opened for reading.
struct OpenSample {
  SampleTensors tensors;
  TensorSample lengths;
};

std::vector<OpenSample> open_samples(std::string_view bodies, std::span<const std::int64_t> arrivals) {
  std::vector<OpenSample> samples;
  samples.reserve(arrivals.size());
  while (!bodies.empty()) {
    std::uint64_t size = 0;
    if (bodies.size() >= size_bytes) std::memcpy(&size, bodies.data(), size_bytes);
    if (bodies.size() < size_bytes || size > bodies.size() - size_bytes)
      throw InputError(answer_name, "are truncated", same_version_hint);
    if (samples.size() == arrivals.size()) reject_number(std::ssize(samples) + 1, arrivals.size());
    const std::string name = "sample " + std::to_string(arrivals[samples.size()]);
    SampleTensors tensors(std::make_unique<TensorFile>(name, bodies.substr(size_bytes, size)));
    if (tensors.num_samples() != 1) throw InputError(name, "is not one sample", same_version_hint);
    const TensorSample lengths = tensors.lengths({0, 1}).front();
    samples.push_back({std::move(tensors), lengths});
    bodies.remove_prefix(size_bytes + size);
  }
  if (samples.size() != arrivals.size()) reject_number(std::ssize(samples), arrivals.size());
  return samples;
}

/// Returns an uninitialized column for a field of the schema.
Column column_for(const FieldSpec& spec, std::size_t field, const RaggedBatch& batch,
                  std::span<const OpenSample> samples) {
  if (!is_counted(spec.kind)) return Column::uninitialized(spec, batch.rows_of(spec.kind));
  std::vector<std::int64_t> counts;
  for (const OpenSample& sample : samples) counts.push_back(sample.tensors.counted_rows(field, 0));
  return Column::uninitialized(spec, SampleRows::from_counts(counts));
}

/// Throws InputError unless the sample has the fields of the schema. Kinds and element types that were open
/// when the sample was stored may differ from the schema, as long as rows have the same size.
void require_fields(const OpenSample& sample, const JsonlSchema& schema) {
  const std::vector<FieldSpec>& fields = sample.tensors.fields();
  const bool are_same = std::ranges::equal(fields, schema.fields, [](const FieldSpec& a, const FieldSpec& b) {
    return a.name == b.name && is_counted(a.kind) == is_counted(b.kind) &&
           a.rule().is_per_sample() == b.rule().is_per_sample();
  });
  if (!are_same)
    throw InputError(sample.tensors.file().path(), "has different fields than the stream", same_version_hint);
}

void read_into(RaggedBatch& batch, std::int64_t index, const OpenSample& sample) {
  const std::string& name = sample.tensors.file().path();
  std::vector<std::span<std::byte>> out;
  for (std::size_t f = 0; f < batch.fields().size(); ++f) {
    Column& column = batch.fields()[f];
    const RowRange rows = batch.rows_of(column, index);
    out.emplace_back(column.row(rows.begin), column.row(rows.end));
    if (f == 0 || rows.size() == 0) continue;
    const FieldSpec& mine = sample.tensors.fields()[f - 1];
    if (mine.dtype != column.spec().dtype || mine.trailing != column.spec().trailing)
      throw InputError(name, "has a different type of field '" + mine.name + "' than the stream",
                       same_version_hint);
  }
  sample.tensors.read(0, sample.lengths, {0, 0}, out);
}

RaggedBatch parse_tensor_samples(const JsonlSchema& schema, std::string_view bodies,
                                 std::span<const std::int64_t> arrivals) {
  const std::vector<OpenSample> samples = open_samples(bodies, arrivals);
  std::vector<SampleShape> shapes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    require_fields(samples[i], schema);
    const TensorSample& lengths = samples[i].lengths;
    shapes.push_back({SampleId{arrivals[i]}, group_of(samples[i].tensors.uid_of(0), arrivals[i]),
                      lengths.prompt, lengths.response});
  }
  RaggedBatch batch(std::move(shapes));
  batch.add_field(Column::uninitialized({std::string(input_ids_field), DType::int64, FieldKind::token, {}},
                                        batch.num_tokens()));
  for (std::size_t f = 0; f < schema.fields.size(); ++f)
    batch.add_field(column_for(schema.fields[f], f, batch, samples));
  for (std::int64_t i = 0; i < batch.size(); ++i) read_into(batch, i, samples[static_cast<std::size_t>(i)]);
  return batch;
}

}  // namespace

SampleForm detect_form(std::string_view body) noexcept {
  return body.size() >= size_bytes && body[size_bytes - 1] == '\0' ? SampleForm::tensors : SampleForm::lines;
}

BodyFrame make_body_frame(std::string_view body) {
  if (detect_form(body) == SampleForm::lines) return {{}, "\n"};
  const std::uint64_t size = body.size();
  return {std::string(reinterpret_cast<const char*>(&size), size_bytes), {}};
}

std::string frame_body(std::string_view body) {
  const BodyFrame frame = make_body_frame(body);
  return frame.before + std::string(body) + frame.after;
}

RaggedBatch parse_samples(std::string_view bodies, std::span<const std::int64_t> arrivals,
                          const JsonlSchema& schema, const DeclaredFormats& declared) {
  const bool are_tensors = arrivals.empty() || detect_form(bodies) == SampleForm::tensors;
  return are_tensors ? parse_tensor_samples(schema, bodies, arrivals)
                     : parse_line_samples(schema, declared, bodies, arrivals);
}

}  // namespace evenkeel
