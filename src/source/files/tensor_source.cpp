#include "source/files/tensor_source.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/safetensors/tensor_file.hpp"
#include "mesh/fail_together.hpp"
#include "source/agreed_fields.hpp"
#include "source/files/file_agreement.hpp"
#include "source/files/input_files.hpp"
#include "source/files/schema_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace fs = std::filesystem;

std::unique_ptr<TensorSource> TensorSource::open(const Communicator& comm, const SourceSettings& settings) {
  auto source = run_together(
      comm, [&] { return std::unique_ptr<TensorSource>(new TensorSource(settings.path_text())); });
  const std::vector<fs::path> paths = files_of_source(comm, settings);
  const std::vector<const InputFile*> files = run_together(comm, [&] {
    source->open_files(paths);
    source->agree_on_fields();
    return source->files();
  });
  require_same_contents(comm, files);
  source->gather_lengths(comm);
  return source;
}

void TensorSource::open_files(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths)
    files_.push_back(std::make_unique<const SampleTensors>(std::make_unique<TensorFile>(path)));
  std::int64_t samples = 0;
  for (const auto& file : files_) {
    first_samples_.push_back(samples);
    samples += file->num_samples();
  }
}

void TensorSource::agree_on_fields() {
  std::vector<FieldsOfPart> parts;
  for (const auto& file : files_) {
    FieldsOfPart& part = parts.emplace_back();
    part.name = file->file().path();
    for (std::size_t f = 0; f < file->fields().size(); ++f) {
      const FieldSpec& spec = file->fields()[f];
      part.fields.push_back(
          {spec, std::ranges::count(file->undecided_fields(), spec.name) > 0, !file->has_rows(f)});
    }
  }
  fields_ = agreed_fields(parts, "files");
  for (const SourceField& field : fields_)
    require_valid_field(field.spec, files_.front()->file().path() + ": tensor '" + field.spec.name + "'");
}

std::vector<const InputFile*> TensorSource::files() const {
  std::vector<const InputFile*> files;
  for (const auto& file : files_) files.push_back(&file->file().input());
  return files;
}

void TensorSource::gather_lengths(const Communicator& comm) {
  std::vector<TensorSample> mine;
  GuardedWork work;
  work([&] {
    std::vector<std::int64_t> sizes;
    std::int64_t samples = 0;
    for (const auto& file : files_) {
      sizes.push_back(file->num_samples());
      samples += sizes.back();
    }
    // split_bytes() divides any range of integers, here the samples.
    const ByteRange share = split_bytes(samples, comm.size())[static_cast<std::size_t>(comm.rank())];
    for (const FilePart& part : parts_of(sizes, share)) {
      const auto lengths = files_[part.file]->lengths({part.range.begin, part.range.end});
      mine.insert(mine.end(), lengths.begin(), lengths.end());
    }
  });
  const auto all = all_gather_lists<TensorSample>(comm, mine, work.error(), "lengths of the source");
  run_together(comm, [&] {
    tokens_.reserve(all.values.size() + 1);
    responses_.reserve(all.values.size() + 1);
    for (const TensorSample& sample : all.values) {
      tokens_.push_back(tokens_.back() + sample.prompt + sample.response);
      responses_.push_back(responses_.back() + sample.response);
    }
  });
}

SourceFingerprint TensorSource::fingerprint(const Communicator& comm) const {
  return fingerprint_of(comm, run_together(comm, [&] { return files(); }), name_, num_samples(), false);
}

std::size_t TensorSource::file_of(std::int64_t position) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(first_samples_, position) -
                                  first_samples_.begin()) -
         1;
}

TensorSample TensorSource::lengths_of(std::int64_t position) const {
  const auto at = static_cast<std::size_t>(position);
  const std::int64_t response = responses_[at + 1] - responses_[at];
  return {tokens_in(position) - response, response};
}

TensorPlace TensorSource::place_of(std::int64_t position, std::size_t file) const {
  const auto first = static_cast<std::size_t>(first_samples_[file]);
  const auto at = static_cast<std::size_t>(position);
  return {tokens_[at] - tokens_[first], responses_[at] - responses_[first]};
}

/// Returns an uninitialized column of field number `field` for the samples at `positions`.
Column TensorSource::column_for(std::size_t field, const RaggedBatch& batch,
                                std::span<const std::int64_t> positions) const {
  const FieldSpec& spec = fields_[field].spec;
  if (!is_counted(spec.kind)) return Column::uninitialized(spec, batch.rows_of(spec.kind));
  std::vector<std::int64_t> counts;
  counts.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const std::size_t file = file_of(position);
    counts.push_back(files_[file]->counted_rows(field, position - first_samples_[file]));
  }
  return Column::uninitialized(spec, SampleRows::from_counts(counts));
}

RaggedBatch TensorSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleShape> shapes;
  shapes.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const std::size_t file = file_of(position);
    const Uid uid = files_[file]->uid_of(position - first_samples_[file]);
    const TensorSample lengths = lengths_of(position);
    shapes.push_back({SampleId{position}, group_of(uid, position), lengths.prompt, lengths.response});
  }
  RaggedBatch batch(std::move(shapes));
  batch.add_field(Column::uninitialized({std::string(input_ids_field), DType::int64, FieldKind::token, {}},
                                        batch.num_tokens()));
  for (std::size_t f = 0; f < fields_.size(); ++f) batch.add_field(column_for(f, batch, positions));
  std::vector<std::span<std::byte>> rows(batch.fields().size());
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    for (std::size_t f = 0; f < rows.size(); ++f) {
      Column& column = batch.fields()[f];
      const RowRange range = batch.rows_of(column, i);
      rows[f] = {column.row(range.begin), column.row(range.end)};
    }
    const std::int64_t position = positions[static_cast<std::size_t>(i)];
    const std::size_t file = file_of(position);
    files_[file]->read(position - first_samples_[file], lengths_of(position), place_of(position, file), rows);
  }
  return batch;
}

std::vector<Uid> TensorSource::uids(std::span<const std::int64_t> positions) const {
  std::vector<Uid> uids;
  uids.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const std::size_t file = file_of(position);
    uids.push_back(files_[file]->uid_of(position - first_samples_[file]));
  }
  return uids;
}

std::int64_t TensorSource::file_bytes() const {
  std::int64_t bytes = 0;
  for (const InputFile* file : files()) bytes += file->size();
  return bytes;
}

void TensorSource::prefetch(std::span<const std::int64_t> positions) const {
  ReadAhead ahead;
  for (const std::int64_t position : positions) {
    const std::size_t file = file_of(position);
    files_[file]->add_to_read_ahead(position - first_samples_[file], lengths_of(position),
                                    place_of(position, file), ahead);
  }
  ahead.start();
}

std::string TensorSource::ignored_content() const {
  std::set<std::pair<std::string, std::string>> all;
  for (const auto& file : files_) all.insert(file->ignored_content().begin(), file->ignored_content().end());
  std::string text;
  for (const auto& [name, why] : all)
    text.append(text.empty() ? "'" : ", '").append(name).append("' (").append(why).append(")");
  return text;
}

std::string TensorSource::undecided_fields() const {
  std::string text;
  for (const SourceField& field : fields_) {
    if (field.is_kind_open) text.append(text.empty() ? "'" : ", '").append(field.spec.name).append("'");
  }
  return text;
}

}  // namespace evenkeel
