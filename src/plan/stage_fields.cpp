#include "plan/stage_fields.hpp"

#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {

std::vector<std::size_t> fields_for_stage(std::span<const FieldSpec> fields, PipelineStage stage) {
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const bool tokens = fields[i].name == input_ids_field;
    const bool positions = fields[i].name == position_ids_field;
    if (stage.last() || positions || (tokens && stage.first())) needed.push_back(i);
  }
  return needed;
}

}  // namespace evenkeel
