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

[[noreturn]] void reject_sample_count(std::int64_t come, std::size_t wanted) {
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
    if (lines.size() == arrivals.size()) reject_sample_count(std::ssize(lines) + 1, arrivals.size());
    lines.push_back(
        {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin), arrivals[lines.size()]});
    begin = end + 1;
  }
  if (lines.size() != arrivals.size()) reject_sample_count(std::ssize(lines), arrivals.size());
  const InputFile file(answer_name, bodies);
  return read_samples(file, lines, schema, declared);
}

/// Body in the form of tensors, opened for reading.
struct OpenSample {
  SampleTensors tensors;
  TensorSample lengths;
  std::string_view added;  ///< JSON object with the fields that were added to the sample; empty if none were
};

/// Removes the line that follows a body of tensors if fields were added to the sample, and returns it without
/// its line break.
std::string_view extract_added_fields(std::string_view& bodies) {
  if (bodies.empty() || detect_form(bodies) == SampleForm::tensors) return {};
  const std::size_t end = bodies.find('\n');
  if (end == std::string_view::npos) throw InputError(answer_name, "are truncated", same_version_hint);
  const std::string_view line = bodies.substr(0, end);
  bodies.remove_prefix(end + 1);
  return line;
}

std::vector<OpenSample> open_samples(std::string_view bodies, std::span<const std::int64_t> arrivals) {
  std::vector<OpenSample> samples;
  samples.reserve(arrivals.size());
  while (!bodies.empty()) {
    std::uint64_t size = 0;
    if (bodies.size() >= size_bytes) std::memcpy(&size, bodies.data(), size_bytes);
    if (bodies.size() < size_bytes || size > bodies.size() - size_bytes)
      throw InputError(answer_name, "are truncated", same_version_hint);
    if (samples.size() == arrivals.size()) reject_sample_count(std::ssize(samples) + 1, arrivals.size());
    const std::string name = "sample " + std::to_string(arrivals[samples.size()]);
    SampleTensors tensors(std::make_unique<TensorFile>(name, bodies.substr(size_bytes, size)));
    if (tensors.num_samples() != 1) throw InputError(name, "is not one sample", same_version_hint);
    const TensorSample lengths = tensors.lengths({0, 1}).front();
    bodies.remove_prefix(size_bytes + size);
    samples.push_back({std::move(tensors), lengths, extract_added_fields(bodies)});
  }
  if (samples.size() != arrivals.size()) reject_sample_count(std::ssize(samples), arrivals.size());
  return samples;
}

/// Returns an uninitialized column for the samples' values of the field `spec`, which has index `field` among
/// the fields of the samples' tensors.
Column make_uninitialized_column(const FieldSpec& spec, std::size_t field, const RaggedBatch& batch,
                                 std::span<const OpenSample> samples) {
  if (!is_counted(spec.kind)) return Column::uninitialized(spec, batch.rows_of(spec.kind));
  std::vector<std::int64_t> counts;
  for (const OpenSample& sample : samples) counts.push_back(sample.tensors.num_counted_rows(field, 0));
  return Column::uninitialized(spec, SampleRows::from_counts(counts));
}

/// Throws InputError unless the sample has these fields. Kinds and element types that were open when the
/// sample was stored may differ. read_sample_tensors() checks the element types of fields with rows.
void require_same_fields(const OpenSample& sample, std::span<const FieldSpec> wanted) {
  const std::vector<FieldSpec>& fields = sample.tensors.fields();
  const bool are_same = std::ranges::equal(fields, wanted, [](const FieldSpec& a, const FieldSpec& b) {
    return a.name == b.name && is_counted(a.kind) == is_counted(b.kind) &&
           a.rule().is_per_sample() == b.rule().is_per_sample();
  });
  if (!are_same)
    throw InputError(sample.tensors.file().path(), "has different fields than the stream", same_version_hint);
}

/// Reads a sample's tensors into the columns of its tokens and then of each of its fields.
void read_sample_tensors(std::span<Column* const> columns, const RaggedBatch& batch, std::int64_t index,
                         const OpenSample& sample) {
  const std::string& name = sample.tensors.file().path();
  std::vector<std::span<std::byte>> out;
  for (std::size_t f = 0; f < columns.size(); ++f) {
    Column& column = *columns[f];
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

/// Parses the fields that were added later to samples stored as tensors. Returns them as the columns of a
/// batch of these samples, or an empty batch if no fields were added.
RaggedBatch parse_added_fields(const JsonlSchema& schema, std::span<const OpenSample> samples,
                               std::span<const std::int64_t> arrivals) {
  if (schema.fields.empty()) return {};
  std::string lines;
  for (const OpenSample& sample : samples) {
    if (sample.added.size() < 2)
      throw InputError(sample.tensors.file().path(), "lacks the fields that were added to other samples",
                       "Add the same fields to all samples");
    const std::string_view fields = sample.added.substr(1, sample.added.size() - 2);  // without braces
    lines += make_line_with_zero_tokens(fields, sample.lengths.prompt, sample.lengths.response) + "\n";
  }
  return parse_line_samples(schema, {}, lines, arrivals);
}

/// The fields of a stream of tensors: the fields that were sent with the samples, and the fields that were
/// added to the samples later.
struct TensorStreamFields {
  std::vector<FieldSpec> sent;
  JsonlSchema added;
};

TensorStreamFields split_fields(const JsonlSchema& schema, std::span<const OpenSample> samples) {
  if (samples.empty() || samples[0].added.empty()) return {schema.fields, {}};
  TensorStreamFields fields;
  for (std::size_t f = 0; f < schema.fields.size(); ++f) {
    const std::vector<FieldSpec>& of_sample = samples[0].tensors.fields();
    const bool is_sent =
        std::ranges::find(of_sample, schema.fields[f].name, &FieldSpec::name) != of_sample.end();
    if (is_sent) fields.sent.push_back(schema.fields[f]);
    if (!is_sent) append(fields.added, schema_entry(schema, f));
  }
  return fields;
}

RaggedBatch parse_tensor_samples(const JsonlSchema& schema, std::string_view bodies,
                                 std::span<const std::int64_t> arrivals) {
  const std::vector<OpenSample> samples = open_samples(bodies, arrivals);
  const TensorStreamFields fields = split_fields(schema, samples);
  std::vector<SampleShape> shapes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    require_same_fields(samples[i], fields.sent);
    const TensorSample& lengths = samples[i].lengths;
    shapes.push_back({SampleId{arrivals[i]}, group_of(samples[i].tensors.uid_of(0), arrivals[i]),
                      lengths.prompt, lengths.response});
  }
  RaggedBatch batch(std::move(shapes));
  batch.add_field(Column::uninitialized({std::string(input_ids_field), DType::int64, FieldKind::token, {}},
                                        batch.num_tokens()));
  RaggedBatch added = parse_added_fields(fields.added, samples, arrivals);
  std::size_t sent = 0;
  for (const FieldSpec& field : schema.fields) {
    Column* const later = added.find(field.name);
    batch.add_field(later != nullptr ? std::move(*later)
                                     : make_uninitialized_column(field, sent++, batch, samples));
  }
  std::vector<Column*> columns;
  for (Column& column : batch.fields())
    if (!fields.added.has_field(column.spec().name)) columns.push_back(&column);
  for (std::int64_t i = 0; i < batch.size(); ++i)
    read_sample_tensors(columns, batch, i, samples[static_cast<std::size_t>(i)]);
  return batch;
}

void append_zeros(std::string& line, const char* key, std::int64_t count) {
  line.append(",\"").append(key).append("\":[");
  for (std::int64_t i = 0; i < count; ++i) line.append(i == 0 ? "0" : ",0");
  line.append("]");
}

}  // namespace

SampleForm detect_form(std::string_view body) noexcept {
  return body.size() >= size_bytes && body[size_bytes - 1] == '\0' ? SampleForm::tensors : SampleForm::lines;
}

BodyFrame make_body_frame(std::string_view body, std::string_view added) {
  if (detect_form(body) == SampleForm::lines) return {{}, "\n"};
  const std::uint64_t size = body.size();
  BodyFrame frame{std::string(reinterpret_cast<const char*>(&size), size_bytes), {}};
  // The line with the added fields has at least 8 bytes, none of which is zero, so detect_form() does not
  // take it for the size of the next body.
  if (!added.empty()) frame.after.append("{").append(added.substr(1)).append("}\n");
  return frame;
}

std::string make_line_with_zero_tokens(std::string_view fields, std::int64_t prompt, std::int64_t response) {
  std::string line("{");
  line.append(fields);
  append_zeros(line, "prompt_ids", prompt);
  append_zeros(line, "response_ids", response);
  return line.append("}");
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
