#include "source/dump_source.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "mesh/fail_together.hpp"
#include "service/derived_names.hpp"
#include "source/file_agreement.hpp"
#include "source/schema_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

/// What a rank has learnt of its micro-batches, which those of all ranks bear out or not.
constexpr std::uint32_t either_kind = 3;

bool same_apart_from_kind(const std::map<std::string, DumpedMicroBatch::Tensor>& a,
                          const std::map<std::string, DumpedMicroBatch::Tensor>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype == y.second.dtype;
  });
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
    mine.assign(1 + tensors.size(), either_kind);
    mine[0] = DumpEvidence::all;
    for (const std::int64_t m : my_micro_batches(comm)) {
      const DumpedMicroBatch micro_batch(folder_, dump_, m);
      const auto others = micro_batch.tensors();
      if (!same_apart_from_kind(tensors, others)) {
        throw InputError(micro_batch.path(), "has other tensors than " + first.path(),
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
    std::vector<std::uint32_t> sure(1 + tensors.size(), DumpEvidence::all);
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
      if (tensors.contains(offsets_name(name))) {
        throw InputError(folder_.string(),
                         "has a tensor '" + name +
                             "' of rows that samples count, which no dump says enough of to read it back",
                         "Dump the job without this field to read it back");
      }
      if (name == input_ids_field) continue;
      const bool is_derived = (name == position_ids_field && (sure[0] & DumpEvidence::positions) != 0) ||
                              (name == labels_field && (sure[0] & DumpEvidence::labels) != 0);
      if (is_derived) {
        derived_.push_back(name);
        continue;
      }
      // In padded micro-batches all has one row a sequence first: what is as wide as these is their rows.
      const bool is_clear = kinds == 1 || kinds == 2 || (kinds == either_kind && is_padded);
      if (!is_clear) {
        throw InputError(folder_.string(),
                         "has a tensor '" + name +
                             "' of which nothing tells whether it has one row a token or one a sample",
                         "Dump more samples");
      }
      const bool by_token = kinds != 2;
      FieldSpec spec{name, tensor.dtype, by_token ? FieldKind::token : FieldKind::sample,
                     by_token ? tensor.as_token : tensor.as_sample};
      require_valid_field(spec, folder_.string() + ": tensor '" + name + "'");
      fields_.push_back(std::move(spec));
    }
  });
  deciding.agree(comm);
}

void DumpSource::find_samples(const Communicator& comm) {
  std::vector<DumpedSample> mine;
  GuardedWork work;
  work([&] {
    for (const std::int64_t m : my_micro_batches(comm)) {
      const DumpedMicroBatch micro_batch(folder_, dump_, m);
      for (DumpedSample sample : micro_batch.samples()) {
        sample.prompt = micro_batch.prompt_of(sample, layout_);
        mine.push_back(sample);
      }
    }
  });
  samples_ = all_gather_lists<DumpedSample>(comm, mine, work.error(), "samples of a dump").values;
  const auto order = [&](const DumpedSample& s) {
    return std::tuple(dump_.micro_batches[static_cast<std::size_t>(s.micro_batch)].step, s.index,
                      s.micro_batch, s.place);
  };
  std::ranges::sort(samples_, {}, order);
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
  for (const FieldSpec& spec : fields_) batch.add_field(Column::unwritten(spec, batch.rows_of(spec.kind)));
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
      if (column.spec().kind == FieldKind::sample) {
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
