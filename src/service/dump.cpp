#include "evenkeel/service/dump.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/io/safetensors.hpp"
#include "service/numbered_name.hpp"
#include "service/tensor_views.hpp"

namespace evenkeel {
namespace {

/// Token fields of padded micro-batches are [sequences, rows of each on this rank, ...].
TensorView shaped_view(const Column& column, const PackedMicroBatch& micro_batch) {
  TensorView view = view_of(column);
  if (micro_batch.padded_length == 0 || column.spec().kind == FieldKind::sample) return view;
  const std::vector<std::int64_t>& trailing = column.spec().trailing;
  view.shape = {micro_batch.layout.size(), micro_batch.padded_length / micro_batch.layout.cp().size};
  view.shape.insert(view.shape.end(), trailing.begin(), trailing.end());
  return view;
}

/// Whose each sequence is: its sample's line in the source, -1 for filler and for segments that others go on
/// from.
std::vector<std::int64_t> ids_of(const PackedMicroBatch& micro_batch) {
  std::vector<std::int64_t> ids;
  if (micro_batch.shared) {
    for (const SampleId id : micro_batch.shared->segment_sample) ids.push_back(id.value());
  } else {
    for (const SampleShape& sample : micro_batch.samples) ids.push_back(sample.id.value());
  }
  return ids;
}

std::vector<std::int64_t> parents_of(const PackedMicroBatch& micro_batch) {
  std::vector<std::int64_t> parents;
  if (!micro_batch.shared) return parents;
  for (const TreeSegment& segment : micro_batch.shared->tree.tree().segments())
    parents.push_back(segment.parent);
  return parents;
}

const char* layout_name(const PackedMicroBatch& micro_batch) {
  if (micro_batch.shared) return "shared";
  return micro_batch.padded_length > 0 ? "padded" : "packed";
}

void dump_micro_batch(const std::filesystem::path& file, const PackedMicroBatch& micro_batch,
                      double loss_weight) {
  const bool shared = micro_batch.shared.has_value();
  const std::vector<std::int64_t> samples = ids_of(micro_batch);
  const std::vector<std::int64_t> parents = parents_of(micro_batch);
  std::vector<TensorView> tensors{view_of("cu_seqlens", micro_batch.layout.cu_seqlens()),
                                  view_of("cu_seqlens_padded", micro_batch.layout.cu_seqlens_padded()),
                                  view_of(shared ? "segment_sample" : "sample_index", std::span(samples))};
  if (shared) {
    tensors.push_back(view_of("segment_group", std::span(micro_batch.shared->segment_group)));
    tensors.push_back(view_of("segment_parent", std::span(parents)));
  }
  for (const Column& column : micro_batch.fields) tensors.push_back(shaped_view(column, micro_batch));
  std::array<char, 40> weight{};
  std::snprintf(weight.data(), weight.size(), "%.17g", loss_weight);
  write_safetensors(file, tensors,
                    {{"num_tokens", std::to_string(micro_batch.num_tokens())},
                     {"loss_weight", weight.data()},
                     {"layout", layout_name(micro_batch)},
                     {"max_seqlen", std::to_string(micro_batch.layout.max_seqlen())}});
}

}  // namespace

std::filesystem::path dump_folder(const std::filesystem::path& dir, std::int64_t step,
                                  const GridPoint& place) {
  return dir / numbered_name("step-", step, 6) / numbered_name("dp-", place.dp, 3) /
         numbered_name("cp-", place.cp, 3) / numbered_name("tp-", place.tp, 3) /
         numbered_name("pp-", place.pp, 3);
}

void dump_step(const std::filesystem::path& dir, const Step& step, const GridPoint& place) {
  const std::filesystem::path folder = dump_folder(dir, step.index, place);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw IoError(folder.string(), "cannot make the dump folder: " + failure.message(),
                  "Give --dump a folder that every rank may write to");
  }
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const std::filesystem::path file =
        folder / (numbered_name("mb-", static_cast<std::int64_t>(m), 5) + ".safetensors");
    dump_micro_batch(file, step.micro_batches[m], step.losses[m].mean_weight);
  }
}

}  // namespace evenkeel
