#pragma once

#include <span>
#include <vector>

#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// A consumer's place in the pipeline.
struct PipelineStage {
  int rank = 0;
  int size = 1;

  [[nodiscard]] constexpr bool first() const noexcept { return rank == 0; }
  [[nodiscard]] constexpr bool last() const noexcept { return rank == size - 1; }
};

/// The fields, as positions in `fields`, that a pipeline stage is sent: what is for it alone or for all and,
/// of the rest, the first needs tokens, the last every field (labels and loss mask follow from the
/// tokens), all need positions where the source supplies them. A middle stage usually gets nothing:
/// cu_seqlens and positions follow from the plan.
[[nodiscard]] std::vector<std::size_t> fields_for_stage(std::span<const CarriedField> fields,
                                                        PipelineStage stage);

}  // namespace evenkeel
