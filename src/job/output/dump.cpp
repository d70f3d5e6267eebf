#include "job/output/dump.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <list>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batch/equal_values.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/safetensors/safetensors.hpp"
#include "pack/sample_fields.hpp"
#include "plan/strategies/strategy.hpp"
#include "service/step_record.hpp"
#include "source/dump/dump_folder.hpp"
#include "source/dump/dump_schema.hpp"

namespace evenkeel {
namespace {

/// Returns a view of a column. Token fields of padded micro-batches have the shape [sequences, rows per
/// sequence on this rank, ...].
TensorView shaped_view(const Column& column, const PackedMicroBatch& micro_batch) {
  TensorView view = view_of(column);
  if (micro_batch.padded_length == 0 || !column.spec().rule().is_cut()) return view;
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

/// The tensors of a dump other than the fields, kept while the dump is written.
class StructureTensors {
 public:
  explicit StructureTensors(const PackedMicroBatch& micro_batch)
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

/// Returns the fields that any pipeline stage gets in this pass. For a field with layers, `spec` covers all
/// layers, and `layers` lists those of `stage`.
std::vector<DumpedField> dumped_fields(const Step& step, int stage) {
  std::map<std::string, DumpedField> fields;
  for (const CarriedField& carried : fields_for_profile(step.profile, step.record->samples->fields)) {
    if (carried.name() == input_ids_field) continue;
    const auto [at, is_new] = fields.try_emplace(carried.name(), DumpedField{carried.spec});
    DumpedField& field = at->second;
    field.spec.dtype = carried.delivered_dtype;
    field.cut_by = carried.cut_by;
    if (!carried.layers) continue;
    // A field with layers is transferred once per stage. Every layer is on exactly one stage.
    std::int64_t& layers = field.spec.trailing.front();
    if (is_new) layers = 0;
    for (const std::int64_t layer : *carried.layers) layers = std::max(layers, layer + 1);
    if (carried.stage == stage) field.layers = carried.layers;
  }
  std::vector<DumpedField> list;
  for (auto& [name, field] : fields) list.push_back(std::move(field));
  return list;
}

std::optional<std::uint64_t> shared_group(const SampleShape& sample) {
  if (is_single_sample_group(sample.group)) return std::nullopt;
  return sample.group;
}

/// Returns the schema that all files of a rank share.
DumpSchema schema_of_rank(const Step& step, const DumpWriter& writer) {
  DumpSchema schema;
  schema.step = step.index;
  schema.samples = step.num_samples;
  schema.profile = step.profile;
  schema.flexible = writer.form != DumpForm::grid;
  schema.mesh = writer.mesh;
  schema.place = writer.place;
  schema.writers = writer.writers;
  schema.micro_batches = std::ssize(step.micro_batches);
  schema.fields = dumped_fields(step, writer.place.pp);
  return schema;
}

void describe_micro_batch(const Step& step, std::size_t number, DumpSchema& schema) {
  const MicroBatch& micro_batch = step.micro_batches[number];
  const ContextGroup group = micro_batch.context;
  schema.micro_batch = static_cast<std::int64_t>(number);
  schema.context = {
      group.first.value(), group.size, micro_batch.tensors.cp_rank.value(),
      std::ranges::count(std::span(step.micro_batches).first(number), group, &MicroBatch::context)};
  schema.cut = micro_batch.tensors.layout.cp().layout;
  schema.prompts.clear();
  schema.groups.clear();
  for (const SampleShape& sample : micro_batch.tensors.samples) {
    schema.prompts.push_back(sample.prompt);
    schema.groups.push_back(shared_group(sample));
  }
}

void dump_micro_batch(const std::filesystem::path& file, const PackedMicroBatch& micro_batch,
                      double loss_weight, Metadata metadata) {
  const StructureTensors structure(micro_batch);
  std::vector<TensorView> tensors = structure.tensors();
  std::list<Column> unfolded;  // copies of columns in which samples share rows, since files repeat the rows
  for (const Column& field : micro_batch.fields) {
    const bool in_common = field.samples().are_shared();
    const Column& column = in_common ? unfolded.emplace_back(with_separate_rows(field)) : field;
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
  const PlanningStrategy& strategy = strategy_of(settings);
  if (!strategy.has_flexible_groups()) return DumpForm::grid;
  return strategy.ranks_meet_at_micro_batches() ? DumpForm::context_waves : DumpForm::context_tree;
}

std::filesystem::path dump_folder(const std::filesystem::path& dir, std::int64_t step, const GridPoint& place,
                                  DumpForm form) {
  return dumped_place_folder(dir, step, place, form != DumpForm::grid) /
         dumped_rank_folder(place.tp, place.pp);
}

void dump_step(const std::filesystem::path& dir, const Step& step, const DumpWriter& writer) {
  const std::filesystem::path folder = dump_folder(dir, step.index, writer.place, writer.form);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw IoError(folder.string(), "cannot create the dump folder: " + failure.message(),
                  "Give --dump a folder that every rank may write to");
  }
  DumpSchema schema = schema_of_rank(step, writer);
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const std::filesystem::path file = folder / dumped_file_name(static_cast<std::int64_t>(m));
    const MicroBatch& micro_batch = step.micro_batches[m];
    describe_micro_batch(step, m, schema);
    Metadata metadata = context_metadata(micro_batch, m, writer.form);
    metadata.emplace(DumpSchema::metadata_name, text_of(schema));
    dump_micro_batch(file, micro_batch.tensors, micro_batch.loss.mean_weight, std::move(metadata));
  }
}

}  // namespace evenkeel
