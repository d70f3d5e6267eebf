#include "source/dump/dump_source.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "mesh/fail_together.hpp"
#include "pack/sample_fields.hpp"
#include "source/files/file_agreement.hpp"
#include "source/files/schema_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

/// Returns this rank's share of the range [0, things), which is divided evenly among the ranks.
ByteRange share_of(std::int64_t things, const Communicator& comm) {
  return split_bytes(things, comm.size())[static_cast<std::size_t>(comm.rank())];
}

/// Returns the name of the first field that differs between the lists; empty if the lists are equal.
std::string first_different_field(std::span<const DumpedField> a, std::span<const DumpedField> b) {
  const auto is_same = [](const DumpedField& one, const DumpedField& other) {
    return one.spec == other.spec;
  };
  const auto [x, y] = std::ranges::mismatch(a, b, is_same);
  if (x == a.end() && y == b.end()) return {};
  if (x == a.end()) return y->spec.name;
  return y == b.end() ? x->spec.name : std::min(x->spec.name, y->spec.name);
}

}  // namespace

std::unique_ptr<DumpSource> DumpSource::open(const Communicator& comm, const fs::path& folder) {
  auto source = run_together(comm, [&] {
    std::unique_ptr<DumpSource> made(new DumpSource(folder));
    return made;
  });
  source->find_micro_batches(comm);
  source->find_fields(comm);
  source->find_samples(comm);
  return source;
}

// Throws IoError if ranks see different marker files, since their folders then belong to different runs.
void DumpSource::find_micro_batches(const Communicator& comm) {
  const auto marker =
      run_together(comm, [&] { return std::make_unique<const InputFile>(dump_marker(folder_)); });
  require_same_content(comm, *marker);
  GuardedWork work;
  std::vector<DumpedPart> mine;
  work.run_on_replicated_data([&] { steps_ = steps_of_dump(folder_); });
  work([&] {
    const ByteRange share = share_of(steps_.end - steps_.first, comm);
    for (std::int64_t step = steps_.first + share.begin; step < steps_.first + share.end; ++step) {
      const std::vector<DumpedPart> parts = list_dumped_parts(folder_, step);
      mine.insert(mine.end(), parts.begin(), parts.end());
    }
  });
  auto all = all_gather_lists<DumpedPart>(comm, mine, work.error(), "files of a dump");
  parts_ = std::move(all.values);
  run_together(comm, [&] {
    for (std::size_t part = 0; part < parts_.size(); part += static_cast<std::size_t>(parts_[part].size))
      first_parts_.push_back(part);
    first_parts_.push_back(parts_.size());
  });
}

DumpedMicroBatch DumpSource::open_micro_batch(std::int64_t number) const {
  const std::size_t begin = first_parts_[static_cast<std::size_t>(number)];
  const std::size_t end = first_parts_[static_cast<std::size_t>(number) + 1];
  return {folder_, std::span(parts_).subspan(begin, end - begin), number};
}

void DumpSource::find_fields(const Communicator& comm) {
  run_together(comm, [&] {
    const DumpedMicroBatch first = open_micro_batch(0);
    fields_ = first.schema().fields;
    path_of_fields_ = first.path();
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      require_valid_field(fields_[f].spec, path_of_fields_ + ": tensor '" + fields_[f].spec.name + "'");
      if (is_counted(fields_[f].spec.kind)) counted_fields_.push_back(f);
    }
  });
}

void DumpSource::require_same_fields(const DumpedMicroBatch& micro_batch) const {
  const std::string name = first_different_field(fields_, micro_batch.schema().fields);
  if (name.empty()) return;
  const std::vector<DumpedField>& others = micro_batch.schema().fields;
  const auto name_of_field = [](const DumpedField& field) { return field.spec.name; };
  const auto first = std::ranges::find(fields_, name, name_of_field);
  const auto other = std::ranges::find(others, name, name_of_field);
  const std::string tensor = "tensor '" + name + "'";
  if (first == fields_.end() || other == others.end()) {
    const bool is_added = first == fields_.end();
    throw InputError(micro_batch.path(),
                     (is_added ? "has " : "has no ") + tensor + ", but " + path_of_fields_ +
                         (is_added ? " does not" : " does"),
                     "Dump a run in which all samples have the same fields");
  }
  FieldSpec with_same_type = other->spec;
  with_same_type.dtype = first->spec.dtype;
  throw InputError(
      micro_batch.path(),
      "has " + tensor + " as " + description_of(other->spec) + "; " + path_of_fields_ + " has it as " +
          description_of(first->spec),
      with_same_type == first->spec
          ? "If the run set fields." + name + ".dtype: narrow, dump it again without that setting"
          : "Dump a run in which the field has the same kind and shape in all steps");
}

void DumpSource::find_samples(const Communicator& comm) {
  std::vector<DumpedSample> mine;
  std::vector<std::int64_t> my_counts;  // number of rows of each counted field, ordered by sample
  GuardedWork work;
  work([&] {
    const ByteRange share = share_of(num_micro_batches(), comm);
    for (std::int64_t m = share.begin; m < share.end; ++m) {
      const DumpedMicroBatch micro_batch = open_micro_batch(m);
      require_same_fields(micro_batch);
      for (const DumpedSample& sample : micro_batch.samples()) {
        mine.push_back(sample);
        for (const std::size_t f : counted_fields_)
          my_counts.push_back(micro_batch.num_counted_rows(f, sample));
      }
    }
  });
  const auto samples = all_gather_lists<DumpedSample>(comm, mine, work.error(), "samples of a dump");
  const auto counts =
      all_gather_lists<std::int64_t>(comm, my_counts, std::nullopt, "rows of samples of a dump");
  GuardedWork sorting;
  sorting.run_on_replicated_data([&] {
    require_all_samples(samples.values);
    sort_samples(samples.values, counts.values);
  });
  sorting.agree(comm);
}

// Throws InputError unless each step has the number of samples that its files state.
void DumpSource::require_all_samples(std::span<const DumpedSample> samples) const {
  std::map<std::int64_t, std::int64_t> found;
  for (const DumpedSample& sample : samples) ++found[step_of(sample)];
  for (std::size_t m = 0; m + 1 < first_parts_.size(); ++m) {
    const DumpedPart& part = parts_[first_parts_[m]];
    if (found[part.step] == part.samples) continue;
    throw InputError(folder_.string(),
                     "has " + std::to_string(found[part.step]) + " of the " +
                         format_plain_count(part.samples, "sample") + " of step " + std::to_string(part.step),
                     "Dump the job again; evenkeel inspect FOLDER shows what is missing");
  }
}

void DumpSource::sort_samples(std::span<const DumpedSample> samples, std::span<const std::int64_t> counts) {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    const DumpedSample& s = samples[i];
    return std::tuple(step_of(s), s.index, s.micro_batch, s.place);
  });
  samples_.reserve(samples.size());
  counts_.reserve(counts.size());
  for (const std::size_t i : order) {
    samples_.push_back(samples[i]);
    const std::span<const std::int64_t> of_sample =
        counts.subspan(i * counted_fields_.size(), counted_fields_.size());
    counts_.insert(counts_.end(), of_sample.begin(), of_sample.end());
  }
}

Column DumpSource::allocate_column(std::size_t field, const RaggedBatch& batch,
                                   std::span<const std::int64_t> positions) const {
  const FieldSpec& spec = fields_[field].spec;
  if (!is_counted(spec.kind)) return Column::uninitialized(spec, batch.rows_of(spec.kind));
  const auto at =
      static_cast<std::size_t>(std::ranges::find(counted_fields_, field) - counted_fields_.begin());
  std::vector<std::int64_t> counts;
  counts.reserve(positions.size());
  for (const std::int64_t position : positions)
    counts.push_back(counts_[static_cast<std::size_t>(position) * counted_fields_.size() + at]);
  return Column::uninitialized(spec, SampleRows::from_counts(counts));
}

SourceFingerprint DumpSource::fingerprint(const Communicator& comm) const {
  struct Part {
    std::int64_t bytes = 0;
    std::uint64_t digest = 0;
  } mine;
  GuardedWork work;
  work([&] {
    const ByteRange share = share_of(num_micro_batches(), comm);
    for (std::int64_t m = share.begin; m < share.end; ++m) {
      const DumpedMicroBatch micro_batch = open_micro_batch(m);
      std::uint64_t digest = mix_64(static_cast<std::uint64_t>(m));
      for (const TensorFile* const tensors : micro_batch.files()) {
        mine.bytes += tensors->input().size();
        digest = mix_64(digest ^ tensors->input().sampled_digest()) + 1;
      }
      mine.digest += digest;
    }
  });
  const auto all = all_gather_lists<Part>(comm, std::span(&mine, 1), work.error(), "digests of a dump");
  return run_together(comm, [&] {
    SourceFingerprint fingerprint{folder_.string(), num_samples(), 0, 0};
    for (const Part& part : all.values) {
      fingerprint.bytes += part.bytes;
      fingerprint.digest += part.digest;
    }
    return fingerprint;
  });
}

std::vector<Uid> DumpSource::uids(std::span<const std::int64_t> positions) const {
  std::vector<Uid> uids;
  uids.reserve(positions.size());
  for (const std::int64_t position : positions) {
    const DumpedSample& sample = samples_[static_cast<std::size_t>(position)];
    uids.push_back(sample.has_group ? uid_of_group(sample.group) : Uid{});
  }
  return uids;
}

RaggedBatch DumpSource::allocate_batch(std::span<const std::int64_t> positions) const {
  std::vector<SampleShape> shapes;
  for (const std::int64_t position : positions) {
    const DumpedSample& sample = samples_[static_cast<std::size_t>(position)];
    shapes.push_back({SampleId{position}, sample.has_group ? sample.group : own_group(position),
                      sample.prompt, sample.tokens - sample.prompt});
  }
  RaggedBatch batch(std::move(shapes));
  batch.add_field(Column::uninitialized({std::string(input_ids_field), DType::int64, FieldKind::token, {}},
                                        batch.num_tokens()));
  for (std::size_t f = 0; f < fields_.size(); ++f) batch.add_field(allocate_column(f, batch, positions));
  return batch;
}

RaggedBatch DumpSource::read(std::span<const std::int64_t> positions) const {
  RaggedBatch batch = allocate_batch(positions);
  const auto sample_at = [&](std::size_t i) -> const DumpedSample& {
    return samples_[static_cast<std::size_t>(positions[i])];
  };
  // Indexes in `positions`, sorted by micro-batch, so that each micro-batch is opened only once.
  std::vector<std::size_t> order(positions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sample_at(i).micro_batch; });
  std::optional<DumpedMicroBatch> micro_batch;
  std::vector<DumpedSample> samples;
  std::int64_t open = -1;
  for (const std::size_t i : order) {
    const DumpedSample& sample = sample_at(i);
    if (open != sample.micro_batch) {
      open = sample.micro_batch;
      micro_batch.emplace(open_micro_batch(open));
      samples = micro_batch->samples();
    }
    require_unchanged(*micro_batch, sample, samples);
    const auto rows_of = [&](Column& column) {
      const RowRange rows = batch.rows_of(column, static_cast<std::int64_t>(i));
      return std::span{column.row(rows.begin), column.row(rows.end)};
    };
    micro_batch->read_tokens(sample, rows_of(batch.fields()[0]));
    for (std::size_t f = 0; f < fields_.size(); ++f)
      micro_batch->read(f, sample, rows_of(batch.fields()[f + 1]));
  }
  return batch;
}

void DumpSource::require_unchanged(const DumpedMicroBatch& now, const DumpedSample& sample,
                                   std::span<const DumpedSample> samples) const {
  const auto of_sample = [](const DumpedSample& s) {
    return std::tuple(s.place, s.index, s.begin, s.padded, s.tokens, s.prompt);
  };
  bool is_same = first_different_field(fields_, now.schema().fields).empty() &&
                 std::ranges::find(samples, of_sample(sample), of_sample) != samples.end();
  const auto position = static_cast<std::size_t>(&sample - samples_.data());
  for (std::size_t c = 0; c < counted_fields_.size() && is_same; ++c)
    is_same =
        now.num_counted_rows(counted_fields_[c], sample) == counts_[position * counted_fields_.size() + c];
  if (!is_same) throw IoError(now.path(), "has changed while in use", "Do not modify a dump that is in use");
}

// Labels, masks and positions are derived again from tokens and prompts, unless the samples have them as
// fields.
std::string DumpSource::ignored_content() const {
  std::string text = "'loss_weights' (derived again)";
  for (const std::string_view name : {labels_field, loss_mask_field, position_ids_field}) {
    const bool is_brought =
        std::ranges::any_of(fields_, [&](const DumpedField& field) { return field.spec.name == name; });
    if (!is_brought) text += ", '" + std::string(name) + "' (derived again)";
  }
  return text;
}

}  // namespace evenkeel
