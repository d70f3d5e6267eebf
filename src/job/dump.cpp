#include "job/dump.hpp"

#include <array>
#include <cstdio>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batch/equal_values.hpp"
#include "evenkeel/base/error.hpp"
#include "io/field_kinds.hpp"
#include "io/safetensors.hpp"
#include "io/sample_tensors.hpp"
#include "job/numbered_name.hpp"
#include "job/tensor_views.hpp"
#include "service/derived_names.hpp"
#include "service/step_record.hpp"

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

/// What tensors do not tell: of which kind each counted field is.
Metadata kinds_metadata(const PackedMicroBatch& micro_batch) {
  FieldKinds counted;
  for (const Column& column : micro_batch.fields) {
    if (is_counted(column.spec().kind)) counted.emplace(column.spec().name, column.spec().kind);
  }
  if (counted.empty()) return {};
  return {{std::string(tensor_names::field_kinds), text_of(counted)}};
}

/// Which layers the rank's pipeline stage has, of each field of layers.
Metadata layers_metadata(const Step& step, int stage) {
  nlohmann::json layers = nlohmann::json::object();
  for (const CarriedField& field : fields_under(step.profile, step.record->samples->fields)) {
    if (field.layers && field.stage == stage) layers[field.name()] = *field.layers;
  }
  if (layers.empty()) return {};
  return {{std::string(layers_name), layers.dump()}};
}

/// Which fields have some of their rows on this context-parallel rank, and what says which.
Metadata cuts_metadata(const Step& step) {
  nlohmann::json cut = nlohmann::json::object();
  for (const CarriedField& field : fields_under(step.profile, step.record->samples->fields)) {
    if (!field.cut_by.empty()) cut[field.name()] = field.cut_by;
  }
  if (cut.empty()) return {};
  return {{std::string(cut_by_name), cut.dump()}};
}

void dump_micro_batch(const std::filesystem::path& file, const PackedMicroBatch& micro_batch,
                      double loss_weight, Metadata metadata) {
  const Structure structure(micro_batch);
  std::vector<TensorView> tensors = structure.tensors();
  std::list<Column> unfolded;  // a file has each sample's rows, wherever they lie in memory
  for (const Column& field : micro_batch.fields) {
    const bool in_common = field.samples().are_in_common();
    const Column& column = in_common ? unfolded.emplace_back(with_rows_of_their_own(field)) : field;
    tensors.push_back(shaped_view(column, micro_batch));
    if (is_counted(column.spec().kind))
      tensors.push_back(view_of(offsets_name(column.spec().name), column.samples().offsets()));
  }
  std::array<char, 40> weight{};
  std::snprintf(weight.data(), weight.size(), "%.17g", loss_weight);
  metadata.merge(kinds_metadata(micro_batch));
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
  Metadata of_fields = layers_metadata(step, place.pp);
  of_fields.merge(cuts_metadata(step));
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const std::filesystem::path file =
        folder / (numbered_name("mb-", static_cast<std::int64_t>(m), 5) + ".safetensors");
    const MicroBatch& micro_batch = step.micro_batches[m];
    Metadata metadata = context_metadata(micro_batch, m, form);
    metadata.insert(of_fields.begin(), of_fields.end());
    dump_micro_batch(file, micro_batch.tensors, micro_batch.loss.mean_weight, std::move(metadata));
  }
}

}  // namespace evenkeel
