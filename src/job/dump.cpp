#include "job/dump.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "io/safetensors.hpp"
#include "job/numbered_name.hpp"
#include "job/tensor_views.hpp"
#include "service/derived_names.hpp"

namespace evenkeel {
namespace {

/// Token fields of padded micro-batches are [sequences, rows of each on this rank, ...].
TensorView shaped_view(const Column& column, const PackedMicroBatch& micro_batch) {
  TensorView view = view_of(column);
  if (micro_batch.padded_length == 0 || column.spec().kind == FieldKind::sample ||
      is_counted(column.spec().kind))
    return view;
  const std::vector<std::int64_t>& trailing = column.spec().trailing;
  view.shape = {micro_batch.layout.size(), micro_batch.padded_length / micro_batch.layout.cp().size};
  view.shape.insert(view.shape.end(), trailing.begin(), trailing.end());
  return view;
}

template <typename Ids>
std::vector<std::int64_t> values_of(const Ids& ids) {
  std::vector<std::int64_t> values;
  for (const SampleId id : ids) values.push_back(id.value());
  return values;
}

/// What a dump has beside the fields, kept while it is written.
class Structure {
 public:
  explicit Structure(const PackedMicroBatch& micro_batch)
      : micro_batch_(micro_batch),
        samples_(values_of(micro_batch.samples | std::views::transform(&SampleShape::id))) {
    if (!micro_batch.shared) return;
    segment_samples_ = values_of(micro_batch.shared->segment_sample);
    for (const TreeSegment& segment : micro_batch.shared->tree.tree().segments())
      parents_.push_back(segment.parent);
  }

  [[nodiscard]] std::vector<TensorView> tensors() const {
    std::vector<TensorView> tensors;
    const auto add = [&](std::string_view name, auto values) {
      tensors.push_back(view_of(std::string(name), values));
    };
    add(cu_seqlens_name, micro_batch_.layout.cu_seqlens());
    add(cu_seqlens_padded_name, micro_batch_.layout.cu_seqlens_padded());
    add(sample_index_name, std::span(samples_));
    if (!micro_batch_.shared) return tensors;
    add(segment_sample_name, std::span(segment_samples_));
    add(segment_group_name, std::span(micro_batch_.shared->segment_group));
    add(segment_parent_name, std::span(parents_));
    add(prediction_offsets_name, std::span(micro_batch_.shared->prediction_offsets));
    return tensors;
  }

 private:
  const PackedMicroBatch& micro_batch_;
  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> segment_samples_;
  std::vector<std::int64_t> parents_;
};

const char* layout_name(const PackedMicroBatch& micro_batch) {
  if (micro_batch.shared) return "shared";
  return micro_batch.padded_length > 0 ? "padded" : "packed";
}

using Metadata = std::map<std::string, std::string>;

Metadata context_metadata(const MicroBatch& m, std::size_t number, DumpForm form) {
  if (form == DumpForm::grid) return {};
  return {{"context_first", std::to_string(m.context.first.value())},
          {"context_size", std::to_string(m.context.size)},
          {"context_rank", std::to_string(m.tensors.cp_rank.value())},
          {"wave", form == DumpForm::context_waves ? std::to_string(number) : "-1"}};
}

void dump_micro_batch(const std::filesystem::path& file, const PackedMicroBatch& micro_batch,
                      double loss_weight, Metadata metadata) {
  const Structure structure(micro_batch);
  std::vector<TensorView> tensors = structure.tensors();
  for (const Column& column : micro_batch.fields) {
    tensors.push_back(shaped_view(column, micro_batch));
    if (is_counted(column.spec().kind))
      tensors.push_back(view_of(offsets_name(column.spec().name), column.samples().offsets()));
  }
  std::array<char, 40> weight{};
  std::snprintf(weight.data(), weight.size(), "%.17g", loss_weight);
  metadata.merge(Metadata{{"num_tokens", std::to_string(micro_batch.num_tokens())},
                          {"loss_weight", weight.data()},
                          {"layout", layout_name(micro_batch)},
                          {"max_seqlen", std::to_string(micro_batch.layout.max_seqlen())}});
  write_safetensors(file, tensors, metadata);
}

}  // namespace

DumpForm dump_form_of(const PlanSettings& settings) noexcept {
  if (!settings.flexible) return DumpForm::grid;
  return settings.is_context_tree() ? DumpForm::context_tree : DumpForm::context_waves;
}

std::filesystem::path dump_folder(const std::filesystem::path& dir, std::int64_t step, const GridPoint& place,
                                  DumpForm form) {
  if (form != DumpForm::grid) {
    return dir / numbered_name("step-", step, 6) / numbered_name("data-", place.dp, 3) /
           numbered_name("tp-", place.tp, 3) / numbered_name("pp-", place.pp, 3);
  }
  return dir / numbered_name("step-", step, 6) / numbered_name("dp-", place.dp, 3) /
         numbered_name("cp-", place.cp, 3) / numbered_name("tp-", place.tp, 3) /
         numbered_name("pp-", place.pp, 3);
}

void dump_step(const std::filesystem::path& dir, const Step& step, const GridPoint& place, DumpForm form) {
  const std::filesystem::path folder = dump_folder(dir, step.index, place, form);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw IoError(folder.string(), "cannot make the dump folder: " + failure.message(),
                  "Give --dump a folder that every rank may write to");
  }
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const std::filesystem::path file =
        folder / (numbered_name("mb-", static_cast<std::int64_t>(m), 5) + ".safetensors");
    const MicroBatch& micro_batch = step.micro_batches[m];
    dump_micro_batch(file, micro_batch.tensors, micro_batch.loss.mean_weight,
                     context_metadata(micro_batch, m, form));
  }
}

}  // namespace evenkeel
