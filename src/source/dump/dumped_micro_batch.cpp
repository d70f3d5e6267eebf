#include "source/dump/dumped_micro_batch.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "pack/sample_fields.hpp"

namespace evenkeel {
namespace {

constexpr const char* of_a_dump =
    "Check that evenkeel run --dump wrote the file, and that it was not modified";

bool is_ascending_from_0(std::span<const std::int64_t> offsets) {
  return !offsets.empty() && offsets.front() == 0 && std::ranges::is_sorted(offsets);
}

const std::string& name_of_field(const DumpedField& field) {
  return field.spec.name;
}

/// Compares fields without their layers, which differ between stages.
bool is_same_field(const DumpedField& a, const DumpedField& b) {
  return a.spec == b.spec && a.cut_by == b.cut_by && a.layers.has_value() == b.layers.has_value();
}

/// Returns the spec of the part of a field's rows that is on one stage.
FieldSpec spec_on_stage(const DumpedField& field) {
  FieldSpec spec = field.spec;
  if (field.layers) spec.trailing.front() = std::ssize(*field.layers);
  return spec;
}

}  // namespace

DumpedMicroBatch::DumpedMicroBatch(const std::filesystem::path& folder, std::span<const DumpedPart> parts,
                                   std::int64_t number)
    : number_(number), ranks_(parts.size()) {
  const auto stages = static_cast<std::size_t>(parts.front().stages);
  for (auto& files : ranks_) files.resize(stages);
  fields_.resize(stages);
  open_stage(folder, parts, stages - 1);
  read_sequences();
  if (needs_all_stages()) {
    for (std::size_t stage = 0; stage + 1 < stages; ++stage) open_stage(folder, parts, stage);
  }
  find_fields();
}

void DumpedMicroBatch::open_stage(const std::filesystem::path& folder, std::span<const DumpedPart> parts,
                                  std::size_t stage) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    ranks_[rank][stage] =
        std::make_unique<TensorFile>(dumped_file_path(folder, parts[rank], static_cast<std::int64_t>(stage)));
    const TensorFile& opened = file(rank, stage);
    DumpSchema schema = parse_dump_schema(opened);
    require_matching_place(schema, parts[rank], static_cast<std::int64_t>(stage), opened.path());
    if (std::cmp_not_equal(schema.context.size, parts.size()))
      fail(opened, "belongs to a group of " + format_plain_count(schema.context.size, "rank") + ", but " +
                       format_plain_count(std::ssize(parts), "file") + " of the group " +
                       (parts.size() == 1 ? "was" : "were") + " found");
    if (rank == 0) fields_[stage] = schema.fields;
    const bool is_same = schema.fields == fields_[stage];
    if (rank == 0 && stage + 1 == fields_.size()) schema_ = std::move(schema);
    if (!is_same || !std::ranges::equal(fields_[stage], schema_.fields, is_same_field))
      fail(opened, "has different fields than " + path() + ", or different layers",
           "Check that one run wrote both files");
  }
}

bool DumpedMicroBatch::needs_all_stages() const {
  return std::ranges::any_of(schema_.fields, [&](const DumpedField& field) {
    return field.layers.has_value() || !last_stage_file(0).find(field.spec.name);
  });
}

void DumpedMicroBatch::read_sequences() {
  const TensorFile& first = last_stage_file(0);
  const auto layout = first.metadata().find("layout");
  if (layout == first.metadata().end()) fail(first, "has no layout in its metadata");
  if (layout->second == "shared") {
    fail(first, "is a micro-batch of shared prefixes, whose rows belong to several samples at once",
         "Dump the job with prefix.share: false to read it back");
  }
  is_padded_ = layout->second == "padded";
  padded_offsets_ = read_integers(first, cu_seqlens_padded_name);
  token_offsets_ = read_integers(first, cu_seqlens_name);
  indices_ = read_integers(first, sample_index_name);
  const std::size_t sequences = indices_.size();
  const bool fits = is_ascending_from_0(padded_offsets_) && is_ascending_from_0(token_offsets_) &&
                    token_offsets_.size() == sequences + 1 && padded_offsets_.size() == sequences + 1 &&
                    schema_.prompts.size() == sequences && sequences > 0;
  if (!fits) fail(first, "has cu_seqlens, cu_seqlens_padded, sample_index and prompts that do not match");
  const CpGroup cp{static_cast<int>(ranks_.size()), schema_.cut};
  rows_ = padded_offsets_.back() / cp.size;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::int64_t aligned = padded_offsets_[i + 1] - padded_offsets_[i];
    const std::int64_t tokens = token_offsets_[i + 1] - token_offsets_[i];
    const auto all = static_cast<std::int64_t>(sequences);
    const bool is_even =
        !is_padded_ || (padded_offsets_.back() % all == 0 && aligned == padded_offsets_.back() / all);
    if (aligned % cp.chunks() == 0 && tokens <= aligned && schema_.prompts[i] <= tokens && is_even) continue;
    fail(first, "has an invalid sequence " + std::to_string(i) + ": it has " +
                    format_plain_count(tokens, "token") + ", with a prompt of " +
                    std::to_string(schema_.prompts[i]) + ", in " + format_plain_count(aligned, "row") +
                    " on " + format_plain_count(cp.size, "rank"));
  }
}

void DumpedMicroBatch::find_fields() {
  tokens_ = find_field({{std::string(input_ids_field), DType::int64, FieldKind::token, {}}});
  for (const DumpedField& field : schema_.fields) sources_.push_back(find_field(field));
  for (std::size_t f = 0; f < sources_.size(); ++f) link_range_field(f);
}

DumpedMicroBatch::Source DumpedMicroBatch::find_field(const DumpedField& field) const {
  Source source;
  for (std::size_t stage = fields_.size(); stage-- > 0;) {
    if (!ranks_[0][stage] || !file(0, stage).find(field.spec.name)) continue;
    DumpedField here = field;
    if (field.layers) here.layers = std::ranges::find(fields_[stage], field.spec.name, name_of_field)->layers;
    const FieldSpec spec = spec_on_stage(here);
    require_tensor(spec, stage);
    source.stages.push_back({stage, here.layers.value_or(std::vector<std::int64_t>{}), spec.row_bytes()});
    if (!field.layers) break;
  }
  if (field.layers) require_all_layers(field, source);
  if (source.stages.empty())
    fail(last_stage_file(0), "has no tensor '" + field.spec.name + "', which its metadata lists");
  if (is_counted(field.spec.kind)) source.rows = rows_of_ranks(field.spec, source.stages.front().stage);
  return source;
}

void DumpedMicroBatch::require_all_layers(const DumpedField& field, const Source& source) const {
  std::set<std::int64_t> found;
  for (const Source::Stage& stage : source.stages) found.insert(stage.layers.begin(), stage.layers.end());
  if (std::cmp_equal(found.size(), field.spec.trailing.front())) return;
  fail(last_stage_file(0), "has " + format_plain_count(field.spec.trailing.front(), "layer") + " of '" +
                               field.spec.name + "', but the files of its pipeline stages have " +
                               std::to_string(found.size()));
}

void DumpedMicroBatch::require_tensor(const FieldSpec& spec, std::size_t stage) const {
  const std::int64_t sequences = std::ssize(indices_);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const TensorFile& here = file(rank, stage);
    const auto tensor = here.find(spec.name);
    if (!tensor) fail(here, "has no tensor '" + spec.name + "', which its metadata lists");
    const StoredTensor& stored = here.tensors()[*tensor];
    std::vector<std::int64_t> shape;
    if (is_counted(spec.kind)) {
      shape = {stored.rows()};
    } else if (spec.rule().is_per_sample()) {
      shape = {sequences};
    } else if (is_padded_) {
      shape = {sequences, rows_ / sequences};
    } else {
      shape = {rows_};
    }
    shape.insert(shape.end(), spec.trailing.begin(), spec.trailing.end());
    if (stored.shape == shape && stored.dtype == spec.dtype) continue;
    fail(here, "has a tensor '" + spec.name + "' of " + stored.stored + " " + shape_text(stored.shape) +
                   ", but its metadata says " + std::string(name_of(spec.dtype)) + " " + shape_text(shape));
  }
}

std::vector<SampleRows> DumpedMicroBatch::rows_of_ranks(const FieldSpec& spec, std::size_t stage) const {
  std::vector<SampleRows> rows;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const TensorFile& here = file(rank, stage);
    std::vector<std::int64_t> offsets = read_integers(here, offsets_name(spec.name));
    const bool fits = is_ascending_from_0(offsets) && offsets.size() == indices_.size() + 1 &&
                      offsets.back() == here.tensors()[*here.find(spec.name)].rows();
    if (!fits) fail(here, "has '" + offsets_name(spec.name) + "' that do not fit its samples and rows");
    rows.push_back(SampleRows::from_offsets(std::move(offsets)));
  }
  return rows;
}

void DumpedMicroBatch::link_range_field(std::size_t field) {
  const std::string& by = schema_.fields[field].cut_by;
  if (by.empty() || ranks_.size() == 1) return;
  const auto found = std::ranges::find(schema_.fields, by, name_of_field);
  const FieldSpec ranges{by, DType::int64, FieldKind::rows, {2}};
  const std::string& cut = schema_.fields[field].spec.name;
  if (found == schema_.fields.end() || found->spec != ranges || !is_counted(schema_.fields[field].spec.kind))
    fail(last_stage_file(0),
         "has rows of '" + cut + "' that are cut by '" + by + "', which is not a field of token ranges");
  sources_[field].ranges = found - schema_.fields.begin();
  if (sources_[static_cast<std::size_t>(sources_[field].ranges)].rows != sources_[field].rows)
    fail(last_stage_file(0),
         "has different numbers of rows of '" + cut + "' than of '" + by + "', which cuts it");
}

std::vector<DumpedSample> DumpedMicroBatch::samples() const {
  std::vector<DumpedSample> samples;
  for (std::size_t i = 0; i < indices_.size(); ++i) {
    if (indices_[i] < 0) continue;  // this sequence is a filler or padding, not a sample
    DumpedSample& sample = samples.emplace_back();
    sample.micro_batch = number_;
    sample.place = static_cast<std::int64_t>(i);
    sample.index = indices_[i];
    sample.begin = padded_offsets_[i];
    sample.padded = padded_offsets_[i + 1] - padded_offsets_[i];
    sample.tokens = token_offsets_[i + 1] - token_offsets_[i];
    sample.prompt = schema_.prompts[i];
    sample.group = schema_.groups[i].value_or(0);
    sample.has_group = schema_.groups[i].has_value();
  }
  return samples;
}

std::int64_t DumpedMicroBatch::num_counted_rows(std::size_t field, const DumpedSample& sample) const {
  const Source& source = sources_[field];
  if (source.ranges < 0) return source.rows.front()[sample.place].size();
  return std::ssize(collect_cut_rows(static_cast<std::size_t>(source.ranges), sample.place));
}

// Returns the sample's rows in the order of their tokens. If several ranks have tokens of a row, each of them
// has the whole row; only one copy is returned.
std::vector<DumpedMicroBatch::CutRow> DumpedMicroBatch::collect_cut_rows(std::size_t ranges,
                                                                         std::int64_t place) const {
  const std::string& name = schema_.fields[ranges].spec.name;
  const std::size_t stage = sources_[ranges].stages.front().stage;
  std::vector<CutRow> rows;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RowRange mine = sources_[ranges].rows[rank][place];
    std::vector<std::int64_t> bounds(2 * static_cast<std::size_t>(mine.size()));
    const TensorFile& here = file(rank, stage);
    here.read_rows(*here.find(name), mine, std::as_writable_bytes(std::span(bounds)));
    for (std::int64_t i = 0; i < mine.size(); ++i) {
      CutRow row{bounds[static_cast<std::size_t>(2 * i)], bounds[static_cast<std::size_t>(2 * i + 1)], 0,
                 rank, i};
      if (i > 0 && rows.back().begin == row.begin && rows.back().end == row.end)
        row.copy = rows.back().copy + 1;
      rows.push_back(row);
    }
  }
  std::ranges::sort(rows);
  const auto same = std::ranges::unique(
      rows, {}, [](const CutRow& row) { return std::tuple(row.begin, row.end, row.copy); });
  rows.erase(same.begin(), same.end());
  return rows;
}

void DumpedMicroBatch::read(std::size_t field, const DumpedSample& sample, std::span<std::byte> out) const {
  const FieldSpec& spec = schema_.fields[field].spec;
  const Source& source = sources_[field];
  if (!schema_.fields[field].layers) return read_stage(spec, source, source.stages.front(), sample, out);
  const std::size_t row_bytes = spec.row_bytes();
  if (row_bytes == 0) return;
  const std::size_t layer_bytes = row_bytes / static_cast<std::size_t>(spec.trailing.front());
  const std::size_t rows = out.size() / row_bytes;
  for (const Source::Stage& stage : source.stages) {
    std::vector<std::byte> part(rows * stage.row_bytes);
    read_stage(spec, source, stage, sample, part);
    const std::byte* next = part.data();
    for (std::size_t row = 0; row < rows; ++row) {
      for (const std::int64_t layer : stage.layers) {
        std::memcpy(out.data() + row * row_bytes + static_cast<std::size_t>(layer) * layer_bytes, next,
                    layer_bytes);
        next += layer_bytes;
      }
    }
  }
}

void DumpedMicroBatch::read_tokens(const DumpedSample& sample, std::span<std::byte> out) const {
  read_token_rows(input_ids_field, tokens_.stages.front(), sample, out);
}

void DumpedMicroBatch::read_stage(const FieldSpec& spec, const Source& source, const Source::Stage& stage,
                                  const DumpedSample& sample, std::span<std::byte> out) const {
  if (spec.rule().is_per_token()) return read_token_rows(spec.name, stage, sample, out);
  if (spec.rule().is_per_response_token()) {
    // The value of response token t is in row t - 1 of the sample, which predicts the token. For the first
    // token of a sample without a prompt, there is no such row.
    std::vector<std::byte> rows(static_cast<std::size_t>(sample.tokens) * stage.row_bytes);
    read_token_rows(spec.name, stage, sample, rows);
    const std::size_t missing = sample.prompt > 0 || out.empty() ? 0 : stage.row_bytes;
    const std::size_t from = static_cast<std::size_t>(std::max<std::int64_t>(sample.prompt - 1, 0));
    std::ranges::fill(out.first(missing), std::byte{0});
    if (missing < out.size())
      std::memcpy(out.data() + missing, rows.data() + from * stage.row_bytes, out.size() - missing);
    return;
  }
  if (source.ranges >= 0) return read_cut_rows(spec.name, source, sample, out);
  const RowRange rows =
      is_counted(spec.kind) ? source.rows.front()[sample.place] : RowRange{sample.place, sample.place + 1};
  const TensorFile& first = file(0, stage.stage);
  first.read_rows(*first.find(spec.name), rows, out);
}

void DumpedMicroBatch::read_token_rows(std::string_view field, const Source::Stage& stage,
                                       const DumpedSample& sample, std::span<std::byte> out) const {
  const auto size = static_cast<int>(ranks_.size());
  const std::int64_t local = sample.padded / size;
  const RowRange mine = is_padded_ ? RowRange{sample.place, sample.place + 1}
                                   : RowRange{sample.begin / size, sample.begin / size + local};
  std::vector<std::byte> rows(static_cast<std::size_t>(local) * stage.row_bytes);
  for (int rank = 0; rank < size; ++rank) {
    const TensorFile& here = file(static_cast<std::size_t>(rank), stage.stage);
    here.read_rows(*here.find(field), mine, rows);
    const std::byte* next = rows.data();
    for (const RowRange run : cp_runs(sample.padded, {size, schema_.cut}, CpRank{rank})) {
      const std::int64_t end = std::min(run.end, sample.tokens);
      if (run.begin < end && stage.row_bytes > 0)
        std::memcpy(out.data() + static_cast<std::size_t>(run.begin) * stage.row_bytes, next,
                    static_cast<std::size_t>(end - run.begin) * stage.row_bytes);
      next += static_cast<std::size_t>(run.size()) * stage.row_bytes;
    }
  }
}

void DumpedMicroBatch::read_cut_rows(std::string_view field, const Source& source, const DumpedSample& sample,
                                     std::span<std::byte> out) const {
  const Source::Stage& stage = source.stages.front();
  std::vector<std::vector<std::byte>> of_ranks;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RowRange mine = source.rows[rank][sample.place];
    const TensorFile& here = file(rank, stage.stage);
    of_ranks.emplace_back(static_cast<std::size_t>(mine.size()) * stage.row_bytes);
    here.read_rows(*here.find(field), mine, of_ranks.back());
  }
  std::byte* next = out.data();
  for (const CutRow& row : collect_cut_rows(static_cast<std::size_t>(source.ranges), sample.place)) {
    if (stage.row_bytes == 0) break;
    std::memcpy(next, of_ranks[row.rank].data() + static_cast<std::size_t>(row.row) * stage.row_bytes,
                stage.row_bytes);
    next += stage.row_bytes;
  }
}

std::vector<const TensorFile*> DumpedMicroBatch::files() const {
  std::vector<const TensorFile*> files;
  for (const auto& stages : ranks_) {
    for (const auto& opened : stages)
      if (opened) files.push_back(opened.get());
  }
  return files;
}

std::vector<std::int64_t> DumpedMicroBatch::read_integers(const TensorFile& file,
                                                          std::string_view name) const {
  const auto tensor = file.find(name);
  if (!tensor || !file.has_integers(*tensor) || file.tensors()[*tensor].shape.size() != 1)
    fail(file, "has no list of integers '" + std::string(name) + "'");
  return file.read_integers(*tensor, {0, file.tensors()[*tensor].rows()});
}

void DumpedMicroBatch::fail(const TensorFile& file, const std::string& message, const std::string& hint) {
  throw InputError(file.path(), message, hint.empty() ? of_a_dump : hint);
}

}  // namespace evenkeel
