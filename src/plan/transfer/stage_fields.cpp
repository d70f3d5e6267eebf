#include "plan/transfer/stage_fields.hpp"

#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {
namespace {

bool is_sent_to(const CarriedField& field, PipelineStage stage) {
  if (field.stage) return *field.stage == stage.rank;
  if (field.to_all_stages) return true;
  const bool tokens = field.name() == input_ids_field;
  const bool positions = field.name() == position_ids_field;
  return stage.last() || positions || (tokens && stage.first());
}

}  // namespace

std::vector<std::size_t> fields_for_stage(std::span<const CarriedField> fields, PipelineStage stage) {
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (is_sent_to(fields[i], stage)) needed.push_back(i);
  }
  return needed;
}

}  // namespace evenkeel
