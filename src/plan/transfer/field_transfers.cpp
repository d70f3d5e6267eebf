#include "plan/transfer/field_transfers.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {
namespace {

bool is_sent_to(const CarriedField& field, PipelineStage stage) {
  if (field.stage) return *field.stage == stage.rank;
  if (field.to_all_stages) return true;
  const bool tokens = field.name() == input_ids_field;
  const bool positions = field.name() == position_ids_field;
  return stage.is_last() || positions || (tokens && stage.is_first());
}

bool describes_next_token(const FieldSpec& field) {
  return field.rule().is_per_token() && (field.name == labels_field || field.name == loss_mask_field);
}

}  // namespace

std::vector<std::size_t> fields_for_stage(std::span<const CarriedField> fields, PipelineStage stage) {
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (is_sent_to(fields[i], stage)) needed.push_back(i);
  }
  return needed;
}

std::vector<FieldTransfer> field_transfers(std::span<const CarriedField> fields, PipelineStage stage,
                                           bool shared) {
  std::vector<FieldTransfer> moved;
  for (const std::size_t f : fields_for_stage(fields, stage)) {
    if (fields[f].shares_equal) continue;
    FieldSpec spec = fields[f].spec;
    spec.dtype = fields[f].delivered_dtype;
    const FieldKind kind = spec.kind;
    if (!shared) {
      if (rule_of(kind).is_per_response_token())
        spec.kind = FieldKind::token;  // for consumers, each value is in the row that predicts its token
      moved.push_back({std::move(spec), f, kind, 0});
      continue;
    }
    if (describes_next_token(spec)) {
      spec.kind = FieldKind::response_token;
      moved.push_back({std::move(spec), f, FieldKind::response_token, -1});
      continue;
    }
    moved.push_back({std::move(spec), f, kind, 0});
  }
  const bool derives_labels = std::ranges::find(fields, labels_field, &CarriedField::name) == fields.end();
  for (FieldTransfer& field : moved) field.needs_halo = derives_labels && field.spec.name == input_ids_field;
  return moved;
}

}  // namespace evenkeel
