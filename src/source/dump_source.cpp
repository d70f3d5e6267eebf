#include "source/dump_source.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/sample_rows.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "io/field_kinds.hpp"
#include "io/sample_tensors.hpp"
#include "io/tensor_file.hpp"
#include "mesh/fail_together.hpp"
#include "service/derived_names.hpp"
#include "source/file_agreement.hpp"
#include "source/schema_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

/// What a rank has learnt of its micro-batches, which those of all ranks bear out or not.
constexpr std::uint32_t any_kind = 63;

using Tensors = std::map<std::string, DumpedMicroBatch::Tensor>;

/// Of one kind both can be, where they have the same rows.
bool may_be_one_field(const DumpedMicroBatch::Tensor& a, const DumpedMicroBatch::Tensor& b) {
  const std::uint32_t both = a.kinds & b.kinds;
  return a.dtype == b.dtype && ((both & token_bit) == 0 || a.as_token == b.as_token) &&
         ((both & ~token_bit) == 0 || a.as_sample == b.as_sample);
}

/// A tensor that is not the same in both, apart from what its rows may be; empty when all are.
std::string differing(const Tensors& a, const Tensors& b) {
  const auto [x, y] = std::ranges::mismatch(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && may_be_one_field(one.second, other.second);
  });
  if (x != a.end()) return x->first;
  return y != b.end() ? y->first : std::string();
}

/// The field that a tensor is, of the kinds that are left: one of tokens where it may be one.
FieldSpec spec_of(const std::string& name, const DumpedMicroBatch::Tensor& tensor, std::uint32_t kinds) {
  if ((kinds & token_bit) != 0) return {name, tensor.dtype, FieldKind::token, tensor.as_token};
  for (const FieldKind kind : {FieldKind::rows, FieldKind::text, FieldKind::bytes}) {
    if (kinds == kind_bit(kind)) return {name, tensor.dtype, kind, tensor.as_sample};
  }
  return {name, tensor.dtype, FieldKind::sample, tensor.as_sample};
}

}  // namespace

std::unique_ptr<DumpSource> DumpSource::open(const Communicator& comm, const fs::path& folder) {
  auto source = together(comm, [&] {
    std::unique_ptr<DumpSource> made(new DumpSource(folder));
    return made;
  });
  source->find_micro_batches(comm);
  source->find_fields(comm);
  source->find_samples(comm);
  return source;
}

// Rank 0 looks for all: it may be a folder of many files. All must see the same run's.
void DumpSource::find_micro_batches(const Communicator& comm) {
  const auto marker = together(comm, [&] { return std::make_unique<const InputFile>(dump_marker(folder_)); });
  require_same_content(comm, *marker);
  DumpFolder found;
  GuardedWork work;
  if (comm.rank() == 0) work([&] { found = list_dump(folder_); });
  const std::array<std::int64_t, 2> sizes{found.cp, found.stage};
  const auto mine = comm.rank() == 0 ? std::span<const std::int64_t>(sizes) : std::span<const std::int64_t>();
  const auto all_sizes = all_gather_lists<std::int64_t>(comm, mine, work.error(), "sizes of a dump");
  dump_.cp = all_sizes.values[0];
  dump_.stage = all_sizes.values[1];
  dump_.micro_batches = all_gather_lists<DumpFolder::MicroBatch>(comm, found.micro_batches, std::nullopt,
                                                                 "micro-batches of a dump")
                            .values;
}

std::vector<std::int64_t> DumpSource::my_micro_batches(const Communicator& comm) const {
  const ByteRange share =
      split_bytes(std::ssize(dump_.micro_batches), comm.size())[static_cast<std::size_t>(comm.rank())];
  std::vector<std::int64_t> mine(static_cast<std::size_t>(share.size()));
  std::iota(mine.begin(), mine.end(), share.begin);
  return mine;
}

void DumpSource::find_fields(const Communicator& comm) {
  // Bits of the evidence, then of each tensor's kinds, in order of names.
  std::vector<std::uint32_t> mine;
  std::map<std::string, DumpedMicroBatch::Tensor> tensors;
  bool is_padded = false;
  GuardedWork work;
  work([&] {
    if (dump_.micro_batches.empty()) return;
    const DumpedMicroBatch first(folder_, dump_, 0);
    tensors = first.tensors();
    is_padded = first.is_padded();
    if (comm.rank() == 0) require_whole_fields(first);
    mine.assign(1 + tensors.size(), any_kind);
    mine[0] = DumpEvidence::all;
    for (const std::int64_t m : my_micro_batches(comm)) {
      const DumpedMicroBatch micro_batch(folder_, dump_, m);
      const auto others = micro_batch.tensors();
      if (const std::string name = differing(tensors, others); !name.empty()) {
        throw InputError(
            micro_batch.path(),
            "has a tensor '" + name + "' that is missing, or of another type or shape, in " + first.path() +
                ", or the other way round",
            "Were both written by one run? With hand_out: narrow types may change; dump without it");
      }
      if (micro_batch.layers() != first.layers()) {
        throw InputError(micro_batch.path(),
                         "has other metadata " + std::string(layers_name) + " than " + first.path(),
                         "Were both written by one run?");
      }
      mine[0] &= micro_batch.evidence(micro_batch.samples());
      std::size_t at = 1;
      for (const auto& [name, tensor] : others) mine[at++] &= tensor.kinds;
    }
  });
  const auto all = all_gather_lists<std::uint32_t>(comm, mine, work.error(), "tensors of a dump");
  GuardedWork deciding;
  deciding.on_replicated_data([&] {
    std::vector<std::uint32_t> sure(1 + tensors.size(), any_kind);
    for (std::size_t i = 0; i < all.values.size(); ++i) sure[i % sure.size()] &= all.values[i];
    if ((sure[0] & (DumpEvidence::zigzag | DumpEvidence::contiguous)) == 0) {
      throw InputError(folder_.string(),
                       "has sequences that were cut over " + std::to_string(dump_.cp) +
                           " ranks, and neither position_ids nor labels that tell how",
                       "Dump the job with mesh.cp=1 to read it back");
    }
    layout_ = (sure[0] & DumpEvidence::zigzag) != 0 ? CpLayout::zigzag : CpLayout::contiguous;
    std::size_t at = 1;
    for (const auto& [name, tensor] : tensors) {
      const std::uint32_t kinds = sure[at++];
      if (name == input_ids_field) continue;
      const bool is_derived = (name == position_ids_field && (sure[0] & DumpEvidence::positions) != 0) ||
                              (name == labels_field && (sure[0] & DumpEvidence::labels) != 0);
      if (is_derived) {
        derived_.push_back(name);
        continue;
      }
      // In padded micro-batches all has one row a sequence first: what is as wide as these is their rows.
      const bool is_clear = std::has_single_bit(kinds) || (kinds == (token_bit | sample_bit) && is_padded);
      if (!is_clear) {
        throw InputError(folder_.string(),
                         "has a tensor '" + name +
                             "' of which nothing tells whether it has one row a token or one a sample",
                         "Dump more samples");
      }
      FieldSpec spec = spec_of(name, tensor, kinds);
      require_valid_field(spec, folder_.string() + ": tensor '" + name + "'");
      if (is_counted(spec.kind)) counted_.push_back(fields_.size());
      fields_.push_back(std::move(spec));
    }
  });
  deciding.agree(comm);
}

/// What stands in earlier stages alone, or in parts in each, cannot be read from the last.
void DumpSource::require_whole_fields(const DumpedMicroBatch& last) const {
  const auto require_no_parts = [&](const DumpedLayers& layers) {
    for (const auto& [name, of_stage] : layers) {
      if (dump_.stage == 0 && count_up(of_stage)) continue;
      throw InputError(folder_.string(),
                       "has a field '" + name + "' of layers that pipeline stages have in parts",
                       "Dump the job with mesh.pp=1 and mesh.vpp=1 to read it back");
    }
  };
  require_no_parts(last.layers());
  if (const std::vector<std::string> cut = last.cut_fields(); !cut.empty()) {
    throw InputError(folder_.string(),
                     "has a field '" + cut.front() + "' whose rows context-parallel ranks have in parts",
                     "Dump the job with mesh.cp=1, or without cut_by for this field, to read it back");
  }
  if (dump_.stage == 0) return;
  const auto first = open_safetensors(dumped_file(folder_, dump_.micro_batches.front(), 0, 0));
  require_no_parts(layers_told_by(*first));
  const auto told = first->metadata().find(std::string(tensor_names::field_kinds));
  const FieldKinds counted = parsed_kinds(told == first->metadata().end() ? std::string() : told->second);
  const Tensors whole = last.tensors();
  for (const StoredTensor& tensor : first->tensors()) {
    const std::string_view name = tensor.name;
    const bool are_offsets =
        std::ranges::any_of(counted, [&](const auto& field) { return offsets_name(field.first) == name; });
    const bool is_derived = std::ranges::count(derived_names, name) > 0;
    if (are_offsets || is_derived || whole.contains(tensor.name)) continue;
    throw InputError(
        folder_.string(),
        "has a field '" + tensor.name + "' in its first pipeline stage alone, and the last is read",
        "Dump the job with mesh.pp=1, or with stage: all for this field, to read it back");
  }
}

void DumpSource::find_samples(const Communicator& comm) {
  std::vector<DumpedSample> mine;
  std::vector<std::int64_t> my_counts;  // of each counted field, sample by sample
  GuardedWork work;
  work([&] {
    for (const std::int64_t m : my_micro_batches(comm)) {
      const DumpedMicroBatch micro_batch(folder_, dump_, m);
      std::vector<SampleRows> counted;
      for (const std::size_t f : counted_) counted.push_back(micro_batch.counted_rows(fields_[f].name));
      for (DumpedSample sample : micro_batch.samples()) {
        sample.prompt = micro_batch.prompt_of(sample, layout_);
        mine.push_back(sample);
        for (const SampleRows& rows : counted) my_counts.push_back(rows[sample.place].size());
      }
    }
  });
  const auto samples = all_gather_lists<DumpedSample>(comm, mine, work.error(), "samples of a dump");
  const auto counts =
      all_gather_lists<std::int64_t>(comm, my_counts, std::nullopt, "rows of samples of a dump");
  together(comm, [&] { sort_samples(samples.values, counts.values); });
}

void DumpSource::sort_samples(std::span<const DumpedSample> samples, std::span<const std::int64_t> counts) {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    const DumpedSample& s = samples[i];
    return std::tuple(dump_.micro_batches[static_cast<std::size_t>(s.micro_batch)].step, s.index,
                      s.micro_batch, s.place);
  });
  samples_.reserve(samples.size());
  counts_.reserve(counts.size());
  for (const std::size_t i : order) {
    samples_.push_back(samples[i]);
    const std::span<const std::int64_t> of_sample = counts.subspan(i * counted_.size(), counted_.size());
    counts_.insert(counts_.end(), of_sample.begin(), of_sample.end());
  }
}

Column DumpSource::column_for(std::size_t field, const RaggedBatch& batch,
                              std::span<const std::int64_t> positions) const {
  const FieldSpec& spec = fields_[field];
  if (!is_counted(spec.kind)) return Column::unwritten(spec, batch.rows_of(spec.kind));
  const auto at = static_cast<std::size_t>(std::ranges::find(counted_, field) - counted_.begin());
  std::vector<std::int64_t> counts;
  counts.reserve(positions.size());
  for (const std::int64_t position : positions)
    counts.push_back(counts_[static_cast<std::size_t>(position) * counted_.size() + at]);
  return Column::unwritten(spec, SampleRows::of_counts(counts));
}

SourceFingerprint DumpSource::fingerprint(const Communicator& comm) const {
  struct Part {
    std::int64_t bytes = 0;
    std::uint64_t digest = 0;
  } mine;
  GuardedWork work;
  work([&] {
    for (const std::int64_t m : my_micro_batches(comm)) {
      const auto& which = dump_.micro_batches[static_cast<std::size_t>(m)];
      const InputFile file(dumped_file(folder_, which, 0, dump_.stage));
      mine.bytes += file.size();
      mine.digest += mix_64(file.sampled_digest() + static_cast<std::uint64_t>(m));
    }
  });
  const auto all = all_gather_lists<Part>(comm, std::span(&mine, 1), work.error(), "digests of a dump");
  return together(comm, [&] {
    SourceFingerprint fingerprint{folder_.string(), num_samples(), 0, 0};
    for (const Part& part : all.values) {
      fingerprint.bytes += part.bytes;
      fingerprint.digest += part.digest;
    }
    return fingerprint;
  });
}

RaggedBatch DumpSource::read(std::span<const std::int64_t> positions) const {
  std::vector<SampleShape> shapes;
  std::vector<std::size_t> order(positions.size());  // by micro-batch, each of which is opened once
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto sample_at = [&](std::size_t i) -> const DumpedSample& {
    return samples_[static_cast<std::size_t>(positions[i])];
  };
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const DumpedSample& sample = sample_at(i);
    shapes.push_back({SampleId{positions[i]}, mix_64(static_cast<std::uint64_t>(positions[i])), sample.prompt,
                      sample.tokens - sample.prompt});
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sample_at(i).micro_batch; });
  RaggedBatch batch(std::move(shapes));
  batch.add_field(Column::unwritten({std::string(input_ids_field), DType::int64, FieldKind::token, {}},
                                    batch.num_tokens()));
  for (std::size_t f = 0; f < fields_.size(); ++f) batch.add_field(column_for(f, batch, positions));
  std::unique_ptr<const DumpedMicroBatch> micro_batch;
  std::int64_t open = -1;
  for (const std::size_t i : order) {
    const DumpedSample& sample = sample_at(i);
    if (open != sample.micro_batch) {
      micro_batch = std::make_unique<const DumpedMicroBatch>(folder_, dump_, sample.micro_batch);
      open = sample.micro_batch;
      const std::vector<DumpedSample> now = micro_batch->samples();
      for (const std::size_t j : order) {
        const DumpedSample& mine = sample_at(j);
        if (mine.micro_batch != open) continue;
        const bool is_same = std::ranges::any_of(now, [&](const DumpedSample& s) {
          return std::tuple(s.place, s.index, s.begin, s.padded, s.tokens) ==
                 std::tuple(mine.place, mine.index, mine.begin, mine.padded, mine.tokens);
        });
        if (!is_same)
          throw IoError(micro_batch->path(), "has changed while in use", "Let nobody write to a dump in use");
      }
    }
    for (Column& column : batch.fields()) {
      const RowRange rows = batch.rows_of(column, static_cast<std::int64_t>(i));
      const std::span<std::byte> out{column.row(rows.begin), column.row(rows.end)};
      if (is_counted(column.spec().kind)) {
        const RowRange stored = micro_batch->counted_rows(column.spec().name)[sample.place];
        if (stored.size() != rows.size())
          throw IoError(micro_batch->path(), "has changed while in use", "Let nobody write to a dump in use");
        micro_batch->read_counted(column.spec().name, stored, out);
      } else if (column.spec().kind == FieldKind::sample) {
        micro_batch->read_sample(column.spec().name, sample, out);
      } else {
        micro_batch->read_tokens(column.spec().name, sample, layout_, column.row_bytes(), out);
      }
    }
  }
  return batch;
}

std::string DumpSource::left_out() const {
  std::string text = "'loss_weights' (derived anew)";
  for (const std::string& name : derived_) text += ", '" + name + "' (derived anew)";
  return text;
}

}  // namespace evenkeel
